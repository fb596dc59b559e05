"""Exceptions that are the job's own although our code was running.

Python runs a signal's handler between any two instructions of the main thread,
the shim's among them. What the handler raises is for the job.
"""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any


def is_the_jobs(error: BaseException) -> bool:
    """Whether a signal handler of the job raised this exception."""
    codes = _handlers()
    traceback = error.__traceback__
    while codes and traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


def _handlers() -> set[CodeType]:
    """The code of every handler in force that is written in Python."""
    found = map(signal.getsignal, signal.valid_signals())
    return {code for handler in found if (code := _code(handler)) is not None}


def _code(handler: Any) -> Any:
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = getattr(type(handler), "__call__", None)  # noqa: B004
    return getattr(function, "__code__", None)
