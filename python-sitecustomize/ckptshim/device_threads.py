"""Autograd's device threads at the end of a process.

A device thread lets go of a backward's last nodes after the backward has returned,
and takes the interpreter's lock for hooks on their saved tensors. One that asks for
it once the interpreter ends is ended there, inside a destructor: the process aborts.
Without hooks that is rare; a job must not meet it more often with them.
"""

from __future__ import annotations

import os
import time

from . import files

_NAME = "pt_autograd_"      # torch/csrc/autograd/engine.cpp, Engine::thread_init
_TASKS = "/proc/self/task"
_PAUSE = 0.001              # seconds
_STILL = 3                  # times in a row that all of them are seen waiting
_LIMIT = 1.0                # seconds
_MOST = 4096                # bytes of such a file


def settle(limit: float = _LIMIT) -> bool:
    """Wait until they have nothing left to do, for at most so many seconds.

    Any thread. Whether they have; at once where there are none.
    """
    threads = _threads()
    end = time.monotonic() + limit
    still = 0
    while threads and still < _STILL:
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE)              # another thread may have the lock
        still = still + 1 if all(map(_waits, threads)) else 0
    return True


def _threads() -> list[str]:
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return []
    return [task for task in tasks if _read(task, "comm").startswith(_NAME)]


def _waits(task: str) -> bool:
    """Whether it sleeps, or is gone; the state follows the name, see proc(5)."""
    return _read(task, "stat").rpartition(")")[2].split()[:1] in ([], ["S"])


def _read(task: str, file: str) -> str:
    try:
        return files.text(f"{_TASKS}/{task}/{file}", _MOST)
    except OSError:                     # the thread is gone
        return ""
