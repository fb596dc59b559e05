"""Each call of the shim fails once, and each call of the agent that can.

By default one call of the shim in STRIDE is tried, always the same ones;
CKPT_FAULTS=all tries every one, which takes minutes.
"""

import json
import os
import subprocess
import sys

import pytest

import instrument
from job import built, environment
from native import HERE

STRIDE = 1 if os.environ.get("CKPT_FAULTS") == "all" else 11
BUDGET = "450K"     # of three blocks, one has to be recomputed
TIMEOUT = 3600


def faults(folder, each, what="error", **settings):
    """What faults.py tells of its children, and of itself at the end."""
    names = instrument.copy(folder)
    (folder / "names.json").write_text(json.dumps(names))
    done = subprocess.run(
        [sys.executable, str(HERE / "faults.py"), str(folder / "names.json"),
         str(each), what], capture_output=True, text=True, timeout=TIMEOUT,
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


def unheard(child):
    """Whether Python itself drops what is raised there, in an end of an object or
    of the process; and the moment of the start, when the line in the log tells.
    """
    where = [child["site"].rsplit(":", 1)[0], *child["callers"]]
    return any(place.endswith((":gone", ":__del__", ":at_exit"))
               or place.startswith(("boot.py:", "sitecustomize.py:"))
               for place in where)


def added(child):
    """Lines but those that a job with a budget has of its plan and at its end."""
    return [line for line in child["log"] if not line.startswith(
        ("ckptagent: budget ", "ckptagent: peak ", "ckptagent: the budget of "))]


def test_the_job_computes_the_same_whatever_call_of_the_shim_fails(told, plain):
    *children, parent = told
    assert parent["site"] is None and parent["result"] == plain
    assert len(children) * STRIDE > 1000
    assert [c["site"] for c in children if c["result"] != plain] == []


def test_a_failure_is_one_line_in_the_log_at_most(told):
    *children, _ = told
    assert [(c["site"], added(c)) for c in children
            if len(added(c)) > 1] == []


def test_the_agent_is_never_off_without_a_word(told):
    """A job that ends without the closing line has been told why."""
    *children, _ = told
    assert [c["site"] for c in children if not c["log"]] == []


def test_what_a_signal_handler_raises_in_the_shim_reaches_the_job(
        tmp_path, plain):
    *children, parent = faults(tmp_path, STRIDE, "signal", CKPT_BUDGET=BUDGET,
                               LD_PRELOAD=str(tmp_path / "libckptagent.so"))
    assert parent["result"] == plain
    assert len(children) * STRIDE > 1000
    lost = [c for c in children if c["result"] != ["Late", *plain]]
    assert [c["site"] for c in lost if not unheard(c)] == []
    # There the job has gone on as if there had been no signal.
    assert [c["site"] for c in lost if c["result"] != plain] == []


# ---- the agent ---------------------------------------------------------------


@pytest.fixture(scope="module")
def faulty(compile_c):
    """What is preloaded: the agent, and what fails its calls."""
    return ":".join(map(str, (built("libckptagent.so"), compile_c.library(
        "faults.so", "faults.c", flags=["-O2"]))))


@pytest.fixture(scope="module")
def agent_told(faulty):
    done = subprocess.run(
        [sys.executable, str(HERE / "agent_faults.py")], capture_output=True,
        text=True, timeout=TIMEOUT,
        env=environment(CKPT_BUDGET=BUDGET, LD_PRELOAD=faulty))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_job_computes_the_same_whatever_call_of_the_agent_fails(
        agent_told, plain):
    assert {"mmap", "write", "dlsym", "open"} <= {c["site"] for c in agent_told}
    for child in agent_told:
        assert (child["result"], child["status"]) == (plain, 0), child


def test_an_agent_that_is_off_has_said_so_in_one_line(agent_told):
    """Only a line of the log that cannot be written is lost."""
    for child in agent_told:
        lost = child["site"] in ("write", "poll")
        works = any("peak" in line for line in child["log"])
        assert len(added(child)) == (0 if works or lost else 1), child


def test_a_start_at_which_something_fails_is_one_line_at_most(fakes, faulty):
    """Before the first allocation: here the library finds its own place."""
    lines = [fakes.host(fakes.c10(), "alloc", "free", preload=faulty, FAULT=str(n))
             for n in range(40)]
    new, delete = "new 0x5e1f 0x1000 64\n", "delete 0x5e1f 0x1000\n"
    for text in lines:
        ours = [line for line in text.splitlines(True) if "ckptagent" in line]
        assert len(ours) <= 1
        assert text.replace("scheduled\n", "").replace("".join(ours), "") == (
            new + delete)
    assert "sitecustomize.py was not found" in lines[0]
