"""The devices that iterations work on: which, their peaks, whether one runs short.

A budget bounds each of them alone, so that what is asked of all is asked of the
one that is worst off.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Iterable, Optional

import torch

from . import device, modes, recompute
from .device import Device, Peaks

if TYPE_CHECKING:
    from .bridge import Agent
    from .counting import Costs
    from .frames import Frames
    from .iteration import Iteration
    from .settings import Settings

_UNKNOWN = 0.25         # of the limit: what a first iteration may need at its end


class _Local(threading.local):
    """What concerns the frame whose forward a thread runs."""

    entry: list[int]    # live bytes of each device when it began


class Devices:
    """One per process.

    Attributes:
        now: those of the iteration in progress or the last one: the CPU, or CUDA
            devices in their order.
        peaks: what was taken from the device of which most was, each time.
        growth: bytes, the largest growth of a block seen so far on any device.
        costs: what is counted in place of times on a phantom device.
    """

    def __init__(self, agent: "Agent", settings: "Settings", frames: "Frames") -> None:
        self._agent = agent
        self._settings = settings
        self._frames = frames
        self._known: dict[Optional[int], Device] = {}
        self._local = _Local()
        self.now = [self._device(None)]
        self.peaks = Peaks()
        self.growth = 0
        self.costs: Optional[Costs] = None

    # -- which they are --------------------------------------------------------

    def _device(self, cuda: Optional[int]) -> Device:
        if cuda not in self._known:
            self._known[cuda] = Device(self._agent, cuda)
        return self._known[cuda]

    @property
    def cuda(self) -> bool:
        """Whether they are CUDA devices."""
        return self.now[0].cuda is not None

    @property
    def tightest(self) -> Device:
        """The one of which the last iteration took most."""
        return max(self.now, key=lambda d: d.peaks.last)

    def of(self, module: torch.nn.Module, args: Any, kwargs: Any) -> list[Device]:
        """Those of a root call; none where the ledger cannot count."""
        return [*map(self._device, device.find(self._agent, module, args, kwargs))]

    def work_on(self, devices: list[Device]) -> None:
        """An iteration is on these devices."""
        if devices == self.now:
            return
        new = [d.cuda for d in devices if d not in self.now and d.cuda is not None]
        self.now = devices
        indices = [d.cuda for d in devices if d.cuda is not None]
        clock, proofs = self._frames.clock, self._frames.proofs
        clock.devices = indices
        modes.follow_streams(indices if len(indices) > 1 else [])
        if not new:
            return
        device.say_what_is_unseen(self._agent)
        for cuda in new:
            modes.settle(cuda)
        self._settings.on_device(min(d.memory() for d in devices))
        proofs.unreal = clock.counted = device.is_phantom()
        if proofs.unreal and self.costs is None:
            self._count_costs(indices[0])

    def _count_costs(self, cuda: int) -> None:
        """Nothing takes its real time there."""
        from .counting import Costs

        self.costs = Costs(cuda)
        recompute.wrap = self.costs.wrap

    def join(self, current: "Iteration", module: torch.nn.Module, args: Any,
             kwargs: Any) -> bool:
        """Another root than its own is called in an iteration. Whether it brought
        CUDA devices that were not known to take part; their peaks count from here.
        """
        if (id(module) in current.roots or not self.cuda
                or torch.cuda.device_count() < 2):
            return False
        current.roots.add(id(module))
        more = [d for d in self.of(module, args, kwargs)
                if d.cuda is not None and d not in self.now]
        for new in more:
            new.reset()
            current.bases[new] = new.live()
        if more:
            self.work_on(together(self.now, more))
        return bool(more)

    # -- peaks -----------------------------------------------------------------

    def begin(self) -> dict[Device, int]:
        """Look for new peaks; the live bytes of each device."""
        for each in self.now:
            each.reset()
        return {each: each.live() for each in self.now}

    def measure(self) -> None:
        """An iteration has ended."""
        for each in self.now:
            each.measure()
        self.peaks.add(self.tightest.peaks.last)

    def give_back(self) -> None:
        """Return cached memory that no tensor uses."""
        if self.cuda:
            device.give_back(self.now)

    def measured(self) -> list[Device]:
        """The CUDA devices that iterations have worked on so far."""
        return [d for d in sorted(self._known.values(), key=lambda d: d.index)
                if d.cuda is not None and d.peaks.max]

    def after_fork(self) -> None:
        """A child has measured nothing."""
        self.peaks = Peaks()
        for each in self._known.values():
            each.peaks = Peaks()

    # -- running short ---------------------------------------------------------

    def block_begins(self) -> None:
        """A block's forward begins on this thread."""
        self._local.entry = [each.live() for each in self.now]

    def block_ends(self) -> None:
        """It has returned, and nothing is dropped yet."""
        for each, entry in zip(self.now, self._local.entry):
            self.growth = max(self.growth, each.live() - entry)

    def short(self, margin: int) -> bool:
        """Whether a device has less than so many bytes left of the limit now."""
        limit = self._settings.limit
        return any(each.live() + margin > limit for each in self.now)

    def was_short(self, margin: int) -> bool:
        """Whether one had, at its peak in this iteration."""
        limit = self._settings.limit
        return any(each.peak() + margin > limit for each in self.now)

    def _margin(self) -> int:
        """What may still come after a block whose frame is held for a proof."""
        margin = 2 * self.growth
        if not self.cuda:
            return margin
        # Here too much ends the job, and the way to the host is fast.
        return max(margin, int(_UNKNOWN * self._settings.limit))

    def relieve(self, current: "Iteration") -> None:
        """Spill frames held for a proof, oldest first, while memory is short."""
        proofs = self._frames.proofs
        if proofs.unreal:               # there is no memory to run short of
            return
        limit = self._settings.limit - self._margin()
        for each in self.now:
            waiting, at = current.unproven, 0
            while at < len(waiting) and each.live() > limit:
                frame = waiting[at]()
                if frame is not None and not frame.is_on(each):
                    at += 1             # another device holds it
                    continue
                del waiting[at]
                if frame is not None:
                    current.spilled += proofs.spill(frame)


def together(known: Iterable[Device], found: list[Device]) -> list[Device]:
    """The devices found, in their order; CUDA devices beside those known before."""
    if found[0].cuda is None:
        return found
    return sorted({*found, *(d for d in known if d.cuda is not None)},
                  key=lambda d: d.index)
