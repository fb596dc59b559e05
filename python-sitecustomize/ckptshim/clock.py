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
    """When something began on CUDA devices."""

    devices: list[int]
    events: list[Any]   # on the current stream of each
    region: int         # of CUPTI's records, 0: none


class Clock:
    """On a CPU: the time that passes. Kernels of a CUDA device run later: there,
    events are put on the stream in the iterations that profile, and read by
    ``read``, which waits for the device once; otherwise nothing is measured.

    On several devices what took the longest counts: one that waits for another
    takes as long as both, and those that have nothing to do no time.

    Attributes:
        devices: the CUDA devices that the work is on; none: the CPU.
        counted: a phantom device, whose events say nothing: costs are counted.
        cupti: takes the times from CUPTI's records instead, where it can.
    """

    def __init__(self) -> None:
        self.devices: list[int] = []
        self.counted = False
        self.cupti: Optional[Cupti] = None
        self._profiling = False
        self._spans: list[tuple["Call", str, Moment, list[Any]]] = []

    def begin(self, profile: bool) -> None:
        """An iteration begins; what it does on a CUDA device is timed or not."""
        cupti = self.cupti if self.devices else None
        self._profiling = profile and (cupti is not None or not self.counted)
        if self._profiling and cupti is not None:
            cupti.begin()

    def start(self) -> Any:
        """A moment, to be handed to ``stop``."""
        devices = self.devices
        if not devices:
            return _now()
        if not self._profiling:
            return None
        events = [*map(self._event, devices)]
        return Moment(devices, events,
                      self.cupti.enter() if self.cupti is not None else 0)

    def stop(self, begin: Any, call: "Call", what: str) -> None:
        """Enter the milliseconds since begin as an attribute of a call."""
        if type(begin) is float:
            setattr(call, what, 1e3 * (_now() - begin))
        elif begin is not None:
            if self.cupti is not None:
                self.cupti.leave(begin.region)
            self._spans.append((call, what, begin, [*map(self._event, begin.devices)]))

    @staticmethod
    def _event(device: int) -> Any:
        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True)
        event.record(cuda.current_stream(device))
        return event

    def read(self) -> None:
        """Enter what was measured on CUDA devices."""
        spans, self._spans = self._spans, []
        for device in self.devices if spans else ():
            torch.cuda.synchronize(device)
        for call, what, begin, ends in spans if not self.counted else ():
            setattr(call, what, max(event.elapsed_time(end)
                                    for event, end in zip(begin.events, ends)))
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
