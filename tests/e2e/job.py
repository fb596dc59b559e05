"""Runs one training job as a user would, with or without the agent.

The scripts and the tests share this. The build is looked for in CKPT_BUILD
(by default build/ of the checkout).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()
TIMEOUT = 600  # seconds


class JobError(Exception):
    """A job that should have ended well did not."""


def built(name):
    """The path of a product of the build tree."""
    if not (BUILD / name).exists():
        raise JobError(f"no {name} in {BUILD}: run scripts/setup first")
    return BUILD / name


def environment(**settings):
    """The caller's environment without the agent, and with settings."""
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith("CKPT_") and key != "LD_PRELOAD"}
    return {**clean, **settings}


@dataclasses.dataclass
class Job:
    """What is left of a job that has ended."""

    status: int             # exit status, negative for a signal
    stdout: str
    stderr: str
    seconds: float
    reports: list           # the run.PID.json files, parsed
    profile: str | None     # text of profile.json
    plan: str | None        # text of plan.json
    out: dict               # what the job wrote to --out, {} without

    @property
    def report(self):
        if len(self.reports) != 1:
            raise JobError(f"{len(self.reports)} run files, not one; standard "
                           f"error ends: {self.stderr[-600:]}")
        return self.reports[0]

    @property
    def peak(self):
        """Peak bytes of the last iteration."""
        return self.report["peak_bytes"]["last"]

    @property
    def digests(self):
        return self.out.get("digests", {})

    @property
    def agent_lines(self):
        """What the agent itself said on standard error."""
        return [line for line in self.stderr.splitlines()
                if line.startswith("ckptagent")]

    def recomputed(self):
        return sum(block["decision"] == "recompute"
                   for block in self.report["blocks"])


def text_of(path):
    return path.read_text() if path.exists() else None


def run(argv, budget=None, agent=True, python=sys.executable, out=True,
        files=True, cwd=None, timeout=TIMEOUT, **settings):
    """Run python ARGV; settings are further variables, e.g. CKPT_PROOF.

    agent: preload the library. budget: CKPT_BUDGET, None leaves it unset.
    out: pass --out FILE and read it. files: set CKPT_OUT and read it. cwd: the
    folder to start in.
    """
    with tempfile.TemporaryDirectory(prefix="ckpt-job-") as name:
        folder = pathlib.Path(name)
        command = [python, *map(str, argv)]
        if out:
            command += ["--out", str(folder / "out.json")]
        if agent:
            settings["LD_PRELOAD"] = str(built("libckptagent.so"))
            if files:
                settings["CKPT_OUT"] = str(folder / "files")
            if budget is not None:
                settings["CKPT_BUDGET"] = str(budget)
        begin = time.monotonic()
        done = subprocess.run(command, env=environment(**settings),
                              capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, cwd=cwd,
                              timeout=timeout)
        seconds = time.monotonic() - begin
        reports = [json.loads(path.read_text())
                   for path in sorted(folder.glob("files/run.*.json"))]
        written = text_of(folder / "out.json")
        return Job(done.returncode, done.stdout, done.stderr, seconds,
                   reports, text_of(folder / "files/profile.json"),
                   text_of(folder / "files/plan.json"),
                   json.loads(written) if written else {})


def differences(one, other):
    """Names whose digests differ between two jobs, in order."""
    return [name for name in {**one.digests, **other.digests}
            if one.digests.get(name) != other.digests.get(name)
            or name not in one.digests or name not in other.digests]
