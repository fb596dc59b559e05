"""Models on a CUDA device under budgets: what scripts/bench and scripts/gpu-check
share. A GPU and the phantom device differ in what is preloaded alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

import job

SCRIPTS = pathlib.Path(__file__).resolve().parent
PLACES = (0.10, 0.25, 0.50, 0.75, 0.90)
STEPS = 10
TIMEOUT = 300  # seconds
EXPANDABLE = "expandable_segments:True"


class OutOfMemory(job.JobError):
    """The job does not fit the device as it stands."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where jobs run.

    python: an interpreter with a CUDA torch. phantom: the phantom's library to
    preload; None on a GPU. lock: a file that lets one job at a time use the device,
    while the next ones import what they need.
    """

    python: str
    phantom: str | None = None
    lock: str | None = None

    def preload(self, agent=True):
        return ([str(job.built("libckptagent.so"))] if agent else []) + (
            [self.phantom] if self.phantom else [])

    def environment(self, agent=True, **settings):
        theirs = ("CKPT_", "CUDA_LAUNCH", "PYTORCH_", "LD_PRELOAD")
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith(theirs)}
        clean["LD_PRELOAD"] = " ".join(self.preload(agent))
        if self.phantom:
            clean["OMP_NUM_THREADS"] = "1"
            clean["CKPT_PHANTOM_DEVICE"] = "H200-141G"
        clean["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        return {**clean, **settings}


@dataclasses.dataclass
class Done:
    """A job that has ended well; see cuda_job.py for result."""

    result: dict
    report: dict | None = None
    stderr: str = ""

    @property
    def steps(self):
        return self.result["steps"]

    @property
    def peak(self):
        """Bytes taken from the device by the last step."""
        return taken(self.steps[-1])

    @property
    def milliseconds(self):
        """Of a step in the planned state: the median of the last three."""
        return sorted(step["ms"] for step in self.steps[-3:])[1]


def start(place, model, dtype, budget=None, *, allocator="", digests=False,
          checkpoint=False, steps=STEPS, timeout=TIMEOUT):
    """Run cuda_job.py; without a budget without the agent.

    Raises:
        JobError: it did not end well; OutOfMemory: for want of device memory.
    """
    with tempfile.TemporaryDirectory(prefix="ckpt-cuda-") as name:
        folder = pathlib.Path(name)
        settings = {"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {}
        if budget is not None:
            settings |= {"CKPT_BUDGET": str(budget), "CKPT_OUT": str(folder / "files")}
        command = [place.python, str(SCRIPTS / "cuda_job.py"), model, "--dtype", dtype,
                   "--steps", str(steps), "--out", str(folder / "out.json")]
        command += ["--digests"] * digests + ["--checkpoint"] * checkpoint
        command += ["--lock", place.lock] if place.lock else []
        done = subprocess.run(
            command, env=place.environment(budget is not None, **settings),
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout,
            check=False)
        if done.returncode:
            kind = OutOfMemory if "OutOfMemoryError" in done.stderr else job.JobError
            raise kind(f"{model} {dtype} at {budget}: status {done.returncode}: "
                       f"{done.stderr.strip()[-300:]}")
        reports = [json.loads(path.read_text())
                   for path in folder.glob("files/run.*.json")]
        return Done(json.loads((folder / "out.json").read_text()),
                    reports[0] if reports else None, done.stderr)


@dataclasses.dataclass
class Cell:
    """One model under one budget. Bytes."""

    model: str
    dtype: str
    allocator: str
    place: float
    budget: int
    floor: int                  # the lowest that was taken from the device
    top: int                    # what the plain job takes
    taken: list                 # by each planned step
    allocated: int              # peak of the last step's tensors
    predicted: int              # the same, by the plan in force
    differ: int                 # the agent's totals from torch's
    recomputed: int
    blocks: int
    milliseconds: float
    bits: bool | None = None    # equal to the plain job's; None: not compared

    @property
    def held_at_first(self):
        return self.taken[0] <= self.budget

    @property
    def held_at_second(self):
        return max(self.taken[1:2], default=0) <= self.budget

    @property
    def held(self):
        """In every step after the second planned one."""
        return bool(self.taken[2:]) and max(self.taken[2:]) <= self.budget

    @property
    def error(self):
        """Predicted over real, less one."""
        return self.predicted / self.allocated - 1

    @property
    def over(self):
        """Taken beyond the budget at the end."""
        return max(0, self.taken[-1] - self.budget)

    def row(self):
        first, second, worst = (
            f"{(taken - self.budget) / self.budget:+.2%}" for taken in
            (self.taken[0], self.taken[min(1, len(self.taken) - 1)],
             max(self.taken[2:] or self.taken)))
        return (self.model, self.dtype, "expandable" if self.allocator else "segments",
                f"{self.place:.0%}", gib(self.budget), gib(self.taken[-1]), first,
                second, worst, f"{self.error:+.4%}",
                f"{self.recomputed} of {self.blocks}")


HEAD = ("model", "dtype", "allocator", "at", "budget", "taken", "first", "second",
        "worst", "error", "recomputed")


def taken(step):
    """From the device, by torch's allocator and by others."""
    return step["reserved"] + step["outside"]


def gib(value):
    return f"{value / (1 << 30):.2f} GiB"


def first_planned(report):
    """The number of the first step that follows a plan."""
    return min((event["iteration"] for event in report["events"]
                if event["kind"] == "plan" and event["iteration"]), default=None)


def cell(done, model, dtype, allocator, at, budget, floor, top, plain=None):
    """What a job under a budget says; plain: the job without the agent."""
    report = done.report
    if report is None or any(e["kind"] == "stand_down" for e in report["events"]):
        raise job.JobError(f"{model} {dtype}: the agent stood down: "
                           f"{done.stderr.strip()[-300:]}")
    first = first_planned(report)
    if first is None or first >= len(done.steps):
        raise job.JobError(f"{model} {dtype} at {budget}: no step was planned")
    peaks, last = report["peak_bytes"], done.steps[-1]
    # The report's prediction has the allocator's own share of the last step.
    predicted = peaks["predicted"] - peaks["last"] + last["allocated"]
    return Cell(
        model, dtype, allocator, at, budget, floor, top,
        [taken(step) for step in done.steps[first:]], last["allocated"], predicted,
        done.result["differ"],
        sum(block["decision"] == "recompute" for block in report["blocks"]),
        len(report["blocks"]), done.milliseconds,
        None if plain is None else
        (done.result["digests"], done.result["random"])
        == (plain.result["digests"], plain.result["random"]))


def budget_at(at, floor, top):
    return int(floor + at * (top - floor))
