"""Builds the phantom for this interpreter's torch, and runs jobs on it.

Kernels do nothing there: no test looks at what a kernel would have computed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATE = ROOT / "hooks" / "phantom" / "generate"
BUILD = Path(os.environ.get("CKPT_BUILD", ROOT / "build")).resolve()
TIMEOUT = 300  # seconds
MARK = "RESULT "

sys.path.insert(0, str(GENERATE))
sys.dont_write_bytecode = True

BEFORE = "import ctypes, json\nresult = None\n"
# A Python that ends while torch's device thread still lets go of a backward's graph
# aborts, in torch's own code (~ThreadLocalState takes the interpreter's lock).
AFTER = f"\nprint({MARK!r} + json.dumps(result))\nimport time; time.sleep(0.3)\n"


def environment(**settings: str) -> dict[str, str]:
    """The caller's, without anything that would change a device."""
    ours = ("CKPT_", "CUDA_", "PYTORCH_", "LD_PRELOAD", "LD_LIBRARY_PATH")
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(ours)}
    return {**clean, "OMP_NUM_THREADS": "1", **settings}


@dataclasses.dataclass
class Job:
    status: int
    stdout: str
    stderr: str

    @property
    def result(self):
        """What the job's code left in `result`."""
        assert self.status == 0, self.stderr[-3000:]
        last = [line for line in self.stdout.splitlines() if line.startswith(MARK)]
        return json.loads(last[-1][len(MARK):])

    @property
    def said(self):
        """What the phantom said on standard error."""
        return [line for line in self.stderr.splitlines()
                if line.startswith("phantom: ")]


def build(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-B", str(GENERATE), *words],
                          capture_output=True, text=True, check=False,
                          timeout=TIMEOUT, env=environment())


class Phantom:
    def __init__(self, library: Path) -> None:
        self.library = library
        self.folder = library.parent

    def start(self, code: str, *, before=(), torch=True,
              **settings: str) -> subprocess.Popen:
        """Starts a job; `before` are libraries to preload before the phantom's.

        Without torch it is there at once, and can still call the libraries.
        """
        code = ("import torch\n" if torch else "") + textwrap.dedent(code)
        preload = " ".join(map(str, [*before, self.library]))
        return subprocess.Popen(
            [sys.executable, "-c", BEFORE + code + AFTER], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=environment(LD_PRELOAD=preload, **settings))

    def run(self, code: str, **settings) -> Job:
        return end(self.start(code, **settings))


def end(job: subprocess.Popen) -> Job:
    try:
        stdout, stderr = job.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        job.kill()
        raise
    return Job(job.returncode, stdout, stderr)


@pytest.fixture(scope="session")
def phantom() -> Phantom:
    made = build("--out", str(BUILD / "phantom"), "--werror", "--strict")
    assert made.returncode == 0, made.stderr
    return Phantom(Path(made.stdout.strip()))
