"""Memory stays flat over many steps; scripts/bench prints the times."""

import json
import subprocess
import sys

import pytest

from job import built, environment
from native import HERE

STEPS = 2000
MORE_BYTES = 1 << 20    # of 1,000 steps: a leaked frame a step would be 8 MiB
MORE_BLOCKS = 300       # one object leaked every third step


@pytest.mark.parametrize("settings", [
    {"CKPT_BUDGET": "450K"}, {"CKPT_BUDGET": "64G"}], ids=["planned", "idle"])
def test_two_thousand_steps_leave_nothing_behind(tmp_path, settings):
    done = subprocess.run(
        [sys.executable, str(HERE / "steady.py"), str(STEPS)], text=True,
        capture_output=True, timeout=600, env=environment(
            CKPT_OUT=str(tmp_path), LD_PRELOAD=str(built("libckptagent.so")),
            **settings))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (report,) = tmp_path.glob("run.*.json")
    recomputes = sum(b["recomputes"] for b in json.loads(report.read_text())["blocks"])
    assert (recomputes >= STEPS - 5) == (settings["CKPT_BUDGET"] == "450K")
    half = len(told["resident"]) // 2
    assert told["resident"][-1] - told["resident"][half - 1] < MORE_BYTES
    # The job's own list of times holds one object a step.
    own = STEPS - STEPS * half // len(told["blocks"])
    assert told["blocks"][-1] - told["blocks"][half - 1] - own < MORE_BLOCKS
