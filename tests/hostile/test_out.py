"""Whatever CKPT_OUT and the standard streams are, the job trains the same.

The log's own file is in tests/unit/test_log.c, a closed standard error at the
start in tests/e2e/test_preload.py.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import pytest

from job import TIMEOUT, built, environment

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = "400K"     # far below the need: originals are spilled
WRITTEN = ("folder", "nothing", "link", "planted_links", "removed", "other_folder",
           "closed", "closed_error")
REFUSED = ("dangling_link", "file", "fifo", "unwritable", "full", "taken_names",
           "small_files", "no_descriptors")
PRIVILEGED = {"full"}
JOBS = [name for name in (*WRITTEN, *REFUSED, "killed")
        if os.getuid() == 0 or name not in PRIVILEGED]


def run(folder, jobs, **settings):
    """name -> what outs.py says of it, with what the child wrote."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(HERE / "outs.py"), str(folder), *jobs], check=True,
        stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, cwd=folder,
        env=environment(**settings), umask=0)
    found = {}
    for line in done.stdout.splitlines():
        job = json.loads(line)
        for end in ("out", "err"):
            job[end] = (folder / f"{job['name']}.{end}").read_text()
        found[job["name"]] = job
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """A job without the agent, and all under it with a relative CKPT_OUT."""
    base = tmp_path_factory.mktemp("outs")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plain = pool.submit(run, base / "plain", ["folder", "killed"])
        under = pool.submit(run, base / "under", JOBS, CKPT_OUT="out",
                            CKPT_BUDGET=BUDGET, CKPT_SPILL=str(base),
                            LD_PRELOAD=str(built("libckptagent.so")))
        return plain.result(), under.result()


@pytest.mark.parametrize("name", [n for n in JOBS if n != "killed"])
def test_the_job_computes_the_same_bits(outcomes, name):
    plain, under = outcomes
    assert under[name]["out"] == plain["folder"]["out"], under[name]["err"]
    assert under[name]["status"] == 0


def lines(job):
    """On standard error, but for what is said of the plan and of the spill."""
    return [line for line in job["err"].splitlines() if "CKPT_OUT" in line
            or not line.startswith(("ckptagent:", "a spill"))]


@pytest.mark.parametrize("name", WRITTEN)
def test_its_files_are_written_with_mode_0600_and_no_other_is_left(outcomes, name):
    job = outcomes[1][name]
    where = "real" if name == "link" else "out"
    files = {f"{where}/{file}": "0o600" for file in (
        f"run.{job['pid']}.json", "plan.json", "profile.json")}
    others = {"link": {"out": "0o777"}, "planted_links": {"victim": "0o666"}}
    assert lines(job) == []
    assert job["left"] == {**files, **others.get(name, {})}


@pytest.mark.parametrize("name", [n for n in REFUSED if n in JOBS])
def test_what_cannot_be_written_is_said_once_and_leaves_nothing_half_done(
        outcomes, name):
    job = outcomes[1][name]
    if name == "no_descriptors":    # not even the log's: it was standard error
        assert len(lines(job)) <= 1
    else:
        assert len(lines(job)) == 1 and "cannot be written" in lines(job)[0]
    assert [f for f in job["left"] if "/." in f] == []


def test_a_job_that_is_killed_leaves_no_half_written_report(outcomes):
    plain, under = (found["killed"] for found in outcomes)
    assert under["out"] == plain["out"] != ""
    assert under["status"] == plain["status"] == -9
    assert [f for f in under["left"] if "/." in f] == []


def test_originals_were_spilled_to_a_file_that_only_its_owner_may_read(outcomes):
    """And that has no name: else the jobs with closed streams prove little."""
    assert "a spill of mode 600\n" in outcomes[1]["folder"]["err"]
