"""Jobs that do something unusual in the middle of their training.

What they print, return and raise is what they do without the agent. A caught
error in the loop and a job that ends by one are in tests/e2e/test_main_job.py.
"""

import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

from job import TIMEOUT, built, environment

HERE = pathlib.Path(__file__).resolve().parent
STATUS = {"exit_in_forward": 3, "exit_at_once_in_forward": 3,
          "raise_in_forward": 1, "raise_in_backward": 1}
JOBS = ("never_backward", "backward_on_another_thread", "all_on_another_thread",
        "threads_born_before_and_after", "exit_in_forward",
        "exit_at_once_in_forward", "raise_in_forward", "raise_in_backward",
        "delete_the_model", "swap_forwards",
        "fork_with_every_lock_held")


@dataclasses.dataclass
class Outcome:
    status: int
    out: str
    err: str
    recomputes: int

    @property
    def last_line(self):
        """What Python says of an uncaught error, without the stack above it."""
        return [line for line in self.err.splitlines() if line[:1].isalpha()
                and not line.startswith("ckptagent")][-1:]


def recomputes(path):
    if not path.exists():
        return 0
    return sum(b["recomputes"] for b in json.loads(path.read_text())["blocks"])


def outcomes(folder, **settings):
    """name -> Outcome of every job, all with the same settings."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(HERE / "jobs.py"), str(folder), *JOBS], check=True,
        stdout=subprocess.PIPE, text=True, timeout=TIMEOUT,
        env=environment(CKPT_OUT=str(folder), **settings))
    found = {}
    for line in done.stdout.splitlines():
        name, pid, status = line.split()
        found[name] = Outcome(int(status), *((folder / f"{name}.{end}").read_text()
                                             for end in ("out", "err")),
                              recomputes(folder / f"run.{pid}.json"))
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The outcomes without the agent and under it."""
    folder = tmp_path_factory.mktemp("jobs")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [run.result() for run in (
            pool.submit(outcomes, folder / "plain"),
            pool.submit(outcomes, folder / "under", CKPT_BUDGET="min",
                        LD_PRELOAD=str(built("libckptagent.so"))))]


@pytest.mark.parametrize("name", JOBS)
def test_the_job_goes_on_and_ends_as_without_the_agent(both, name):
    plain, under = (found[name] for found in both)
    assert plain.out
    assert under.out == plain.out, under.err
    assert under.status == plain.status == STATUS.get(name, 0)
    assert under.last_line == plain.last_line
    assert under.err.count("ckptagent:") <= 2, under.err
    assert bool(under.recomputes) == (name != "never_backward"), under.err
