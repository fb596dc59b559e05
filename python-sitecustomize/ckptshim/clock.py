"""How long forwards and recomputes take, on the device that runs them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .blocks import Call

_now = time.perf_counter


class Clock:
    """On a CPU: the time that passes. Kernels of a CUDA device run later: there,
    events are put on the stream while ``profiling``, and read by ``read``, which
    waits for the device once; otherwise nothing is measured.
    """

    def __init__(self) -> None:
        self.cuda = False
        self.profiling = False
        self._events: list[tuple["Call", str, Any, Any]] = []

    def start(self) -> Any:
        """A moment, to be handed to ``stop``."""
        if not self.cuda:
            return _now()
        return self._event() if self.profiling else None

    def stop(self, begin: Any, call: "Call", what: str) -> None:
        """Enter the milliseconds since begin as an attribute of a call."""
        if type(begin) is float:
            setattr(call, what, 1e3 * (_now() - begin))
        elif begin is not None:
            self._events.append((call, what, begin, self._event()))

    @staticmethod
    def _event() -> Any:
        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self) -> None:
        """Enter what the events say."""
        events, self._events = self._events, []
        if not events:
            return
        torch.cuda.synchronize()
        for call, what, begin, end in events:
            setattr(call, what, begin.elapsed_time(end))
