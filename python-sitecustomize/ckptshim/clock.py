"""How long forwards and recomputes take, on the device that runs them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch

if TYPE_CHECKING:
    from .blocks import Call
    from .cupti import Cupti

_now = time.perf_counter


class Moment(NamedTuple):
    """When something began on a CUDA device."""

    event: Any
    region: int     # of CUPTI's records, 0: none


class Clock:
    """On a CPU: the time that passes. Kernels of a CUDA device run later: there,
    events are put on the stream in the iterations that profile, and read by
    ``read``, which waits for the device once; otherwise nothing is measured.

    Attributes:
        cuda: the work is on a CUDA device.
        counted: a phantom device, whose events say nothing: costs are counted.
        cupti: takes the times from CUPTI's records instead, where it can.
    """

    def __init__(self) -> None:
        self.cuda = False
        self.counted = False
        self.cupti: Optional[Cupti] = None
        self._profiling = False
        self._spans: list[tuple["Call", str, Moment, Any]] = []

    def begin(self, profile: bool) -> None:
        """An iteration begins; what it does on a CUDA device is timed or not."""
        cupti = self.cupti if self.cuda else None
        self._profiling = profile and (cupti is not None or not self.counted)
        if self._profiling and cupti is not None:
            cupti.begin()

    def start(self) -> Any:
        """A moment, to be handed to ``stop``."""
        if not self.cuda:
            return _now()
        if not self._profiling:
            return None
        event = self._event()
        return Moment(event, self.cupti.enter() if self.cupti is not None else 0)

    def stop(self, begin: Any, call: "Call", what: str) -> None:
        """Enter the milliseconds since begin as an attribute of a call."""
        if type(begin) is float:
            setattr(call, what, 1e3 * (_now() - begin))
        elif begin is not None:
            if self.cupti is not None:
                self.cupti.leave(begin.region)
            self._spans.append((call, what, begin, self._event()))

    @staticmethod
    def _event() -> Any:
        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self) -> None:
        """Enter what was measured on a CUDA device."""
        spans, self._spans = self._spans, []
        if spans:
            torch.cuda.synchronize()
        for call, what, begin, end in spans if not self.counted else ():
            setattr(call, what, begin.event.elapsed_time(end))
        if self.cupti is None:
            return
        times = self.cupti.end([begin.region for _, _, begin, _ in spans])
        for (call, what, begin, _), ms in zip(spans, times):
            if begin.region:
                setattr(call, what, ms)

    def after_fork(self) -> None:
        """A child has no device: what was begun there is over."""
        self._spans = []
        if self.cupti is not None:
            self.cupti.recording = False
