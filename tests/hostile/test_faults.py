"""Each call of the shim fails once, and each call of the agent that can.

By default one call of the shim in STRIDE is tried, always the same ones;
CKPT_FAULTS=all tries every one, which takes minutes.
"""

import json
import os
import subprocess
import sys

import instrument
import pytest
from job import environment
from native import HERE

STRIDE = 1 if os.environ.get("CKPT_FAULTS") == "all" else 7
BUDGET = "450K"     # of three blocks, one has to be recomputed
TIMEOUT = 3600

# Functions in which a failure still reaches the job: a call under one of them
# may fail it, any other may not.
PENDING = {"controller.py:block_forward", "frames.py:pack", "frames.py:unpack",
           "frames.py:unpack_held"}


def faults(folder, each, **settings):
    """What faults.py tells of its children, and of itself at the end."""
    names = instrument.copy(folder)
    (folder / "names.json").write_text(json.dumps(names))
    done = subprocess.run(
        [sys.executable, str(HERE / "faults.py"), str(folder / "names.json"),
         str(each)], capture_output=True, text=True, timeout=TIMEOUT,
        env=environment(CKPT_OUT=str(folder / "out"), CKPT_SPILL=str(folder),
                        **settings))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    told = faults(folder, STRIDE, CKPT_BUDGET=BUDGET,
                  LD_PRELOAD=str(folder / "libckptagent.so"))
    (report,) = (folder / "out").glob("run.*.json")
    blocks = json.loads(report.read_text())["blocks"]
    assert any(b["decision"] == "recompute" for b in blocks)
    return told


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The result of the job alone."""
    (alone,) = faults(tmp_path_factory.mktemp("alone"), 1)
    assert len(alone["result"]) == 7 and alone["sites"] == 0
    return alone["result"]


def pending(child):
    return PENDING.intersection(child["callers"])


def added(child):
    """Lines but the two that a job with a budget always has."""
    return [line for line in child["log"] if not line.startswith(
        ("ckptagent: budget ", "ckptagent: peak "))]


def test_the_job_computes_the_same_whatever_call_of_the_shim_fails(told, plain):
    *children, parent = told
    assert parent["site"] is None and parent["result"] == plain
    assert len(children) * STRIDE > 1000
    wrong = [child for child in children if child["result"] != plain]
    assert [c["site"] for c in wrong if not pending(c)] == []
    # Never another gradient: what fails there ends the job with the error.
    assert {tuple(c["result"]) for c in wrong} <= {("MemoryError: injected",)}


def test_a_failure_is_one_line_in_the_log_at_most(told):
    *children, _ = told
    assert [(c["site"], added(c)) for c in children
            if len(added(c)) > 1 and not pending(c)] == []


def test_the_agent_is_never_off_without_a_word(told):
    """A job that ends without the closing line has been told why."""
    *children, _ = told
    assert [c["site"] for c in children if not c["log"] and not pending(c)] == []
