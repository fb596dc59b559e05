"""Room on the interpreter's stack for the shim's own frames.

Every module call that the shim watches adds a few Python frames. A model whose
modules nest deeply may fit Python's recursion limit only just, so the limit is
higher while the shim stands between the job and its modules.
"""

from __future__ import annotations

import sys
import threading

from . import interrupts

_FACTOR = 3


class Room:
    """A context manager; may be entered by several threads and repeatedly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._own = self._raised = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                try:
                    self._raise()
                except Exception as error:  # without room, then
                    if interrupts.is_the_jobs(error):
                        self._inside = 0
                        raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                try:
                    self._lower()
                except Exception as error:  # it may still be deeper than that
                    if interrupts.is_the_jobs(error):
                        raise

    def _raise(self) -> None:
        self._own = sys.getrecursionlimit()
        self._raised = _FACTOR * self._own
        sys.setrecursionlimit(self._raised)

    def _lower(self) -> None:
        """Unless the job has set a limit of its own meanwhile."""
        if sys.getrecursionlimit() == self._raised:
            sys.setrecursionlimit(self._own)

    def after_fork(self) -> None:
        """A lock that another thread held in the parent is free in the child."""
        self._lock = threading.Lock()


room = Room()
