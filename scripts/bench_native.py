"""The two programs in C that measure the ledger and the planner."""

from __future__ import annotations

import re
import subprocess

import job
from bench_figure import Figure

EVENT_NS, TENSOR_BYTES, PROCESS_US = 50, 64, 50
# blocks -> most milliseconds
SOLVE_MS = {24: 1.0, 300: 50.0}
SOLVE_MIB, SOLVE_GAP = 64.0, 0.5  # MiB, per cent


def lines_of(program, *arguments):
    """What a program of the build tree prints, shown as well."""
    done = subprocess.run([str(job.built(program)), *arguments],
                          capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL)
    print("  " + done.stdout.strip().replace("\n", "\n  "))
    if done.returncode:
        raise job.JobError(f"{program}: status {done.returncode}: "
                           f"{done.stderr.strip()[-300:]}")
    return done.stdout


def measure_events(quick):
    """An allocator's event in the ledger, without and with a tape."""
    text = lines_of("scripts/bench_event")
    found = {name.strip(): float(value) for name, value in
             re.findall(r"^(\D+?) +([\d.]+)$", text, re.MULTILINE)}
    worst = max(found["ns an event"], found["ns an event, taped"])
    each = found["bytes each"]
    return [
        Figure("allocation event", f"<= {EVENT_NS} ns", f"{worst:.1f} ns",
               worst <= EVENT_NS, found),
        Figure("ledger, a live tensor", f"<= {TENSOR_BYTES} B",
               f"{each:.1f} B", each <= TENSOR_BYTES),
    ], {}


def measure_process(quick):
    """A process that is not Python, with the library and without."""
    text = lines_of("scripts/bench_spawn", str(job.built("libckptagent.so")),
                    "500" if quick else "2000")
    found = {name.strip(): float(value) for name, value in
             re.findall(r"^(\D+?) +(-?[\d.]+)$", text, re.MULTILINE)}
    more = found["us more with the library"]
    return [Figure("a process that is not Python", f"<= {PROCESS_US} us more",
                   f"{more:.1f} us", more <= PROCESS_US, found)], {}


def measure_solve(quick):
    """The optimal planner on chains of unequal blocks."""
    text = lines_of("planner/bench_solve")
    rows = re.findall(r"^(\d+) blocks.* ([\d.]+) ms +([\d.]+) MiB +([\d.]+) %",
                      text, re.MULTILINE)
    figures = []
    for blocks, limit in SOLVE_MS.items():
        some = [[float(x) for x in row[1:]] for row in rows
                if int(row[0]) == blocks]
        ms, mib, gap = (max(column) for column in zip(*some, strict=True))
        small = blocks < 100
        figures.append(Figure(
            f"solve {blocks} blocks",
            f"<= {limit:g} ms" if small else
            f"<= {limit:g} ms, {SOLVE_MIB:g} MiB, gap {SOLVE_GAP:g} %",
            f"{ms:.2f} ms, {mib:.1f} MiB, gap {gap:.4f} %",
            ms <= limit and (small or (mib <= SOLVE_MIB and gap <= SOLVE_GAP)),
            {"ms": ms, "mib": mib, "gap_percent": gap}))
    return figures, {}
