"""Whether the steps of a planned job stay as fast as they were."""

from __future__ import annotations

import json
import statistics

import job
from bench_figure import Figure

STEPS, WINDOW, WARM = 1000, 200, 20
BUDGET = "450K"     # of three blocks of the tiny model, one is recomputed
SLOWER = 0.05


def measure(quick):
    """The last steps against the first that are planned."""
    done = job.run([job.HERE.parent / "hostile" / "steady.py", STEPS],
                   budget=BUDGET, out=False)
    if done.status:
        raise job.JobError(done.stderr[-300:])
    if not done.recomputed():
        raise job.JobError("nothing was recomputed")
    times = json.loads(done.stdout)["step_ms"]
    first = statistics.median(times[WARM:WARM + WINDOW])
    last = statistics.median(times[-WINDOW:])
    slower = last / first - 1
    print(f"  step {first:.3f} ms at the beginning, {last:.3f} ms at the end")
    return [Figure(f"step time over {STEPS} steps", f"<= {100 * SLOWER:g} % more",
                   f"{slower:+.1%}", slower <= SLOWER,
                   {"first_ms": first, "last_ms": last})], {}
