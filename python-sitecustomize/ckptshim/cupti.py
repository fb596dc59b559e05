"""Times on a CUDA device from CUPTI's records; hooks/cupti.h says how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import torch

if TYPE_CHECKING:
    from .bridge import Agent


class Cupti:
    """Recordings, one an iteration. Each reason to have none is logged once.

    Attributes:
        recording: between ``begin`` and ``end``, unless CUPTI is not to be had.
        enter: the calling thread enters a region; its number, 0 for none.
        leave: it leaves that region.
    """

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._said: set[str] = set()
        self.recording = False
        self.enter: Callable[[], int] = agent.cupti_enter
        self.leave: Callable[[int], None] = agent.cupti_leave

    def begin(self) -> None:
        """Record from here on, if nobody else has CUPTI."""
        self.end([])        # of an iteration that did not come to its end
        if torch.cuda.is_current_stream_capturing():
            return
        why = self._agent.cupti_begin()
        self.recording = not why
        self._say(why)

    def end(self, regions: list[int]) -> list[float]:
        """The milliseconds of each region; none at all where records are missing.

        The device must have finished what was launched in them.
        """
        if not self.recording:
            return []
        self.recording = False
        nanoseconds, why = self._agent.cupti_end(regions)
        self._say(why)
        return [] if why else [ns / 1e6 for ns in nanoseconds]

    def _say(self, why: str) -> None:
        if why and why not in self._said:
            self._said.add(why)
            self._agent.log("warning", f"CKPT_TIMING=cupti: {why}; times come from "
                                       "CUDA events")
