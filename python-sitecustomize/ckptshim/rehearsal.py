"""A rehearsal: a job on the phantom device, to learn what it will need.

Two iterations are only measured. Then blocks are learned as ever, except that
no value is compared (none is real) and that what a block costs is counted. Some
iterations under the plan later, the job is ended and the findings are written.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Callable, NoReturn, Optional

import torch

from .device import phantom_room
from .units import size

if TYPE_CHECKING:
    from .controller import Controller
    from .device import Device
    from .kinds import Tapes

_PLAIN = 2          # iterations without a plan: the second has optimizer state
_MOST = 16          # iterations that a plan may take


class Rehearsal:
    """Watches one process of a rehearsed job.

    Args:
        iterations: how many to run under the plan.
        folder: where rehearsal.PID.txt goes.
        write: writes the run's files.
    """

    def __init__(self, controller: "Controller", iterations: int, folder: str,
                 write: Callable[[], None]) -> None:
        self._controller = controller
        self._iterations = iterations
        self._folder = folder
        self._write = write
        self._seen = 0                  # iterations on a CUDA device, unplanned
        # Of each device: tensors, taken, by others than torch.
        self._plain: dict[Device, tuple[int, int, int]] = {}
        self._planned = 0
        settings = controller.settings
        settings.measure_only = True
        settings.must_plan = True
        settings.proof = "first"

    def after_iteration(self) -> None:
        """Go on, or end the job."""
        c = self._controller
        if not c.devices.cuda:
            if c.iterations >= _PLAIN + self._iterations:
                c.agent.log("error", f"rank {_rank()}: {c.iterations} iterations have "
                                     "run on the CPU, none on a CUDA device")
                _leave()
            return
        if not self._plain:
            self._seen += 1
            if self._seen == _PLAIN:
                self._measured()
        tapes = c.learning.latest_tapes
        if tapes is not None and tapes.planned and c.planned:
            self._planned += 1
        if self._planned >= self._iterations or c.broken \
                or c.iterations >= _MOST + self._iterations:
            self._end()

    def _measured(self) -> None:
        """The plain iterations are over: from here on as with a budget."""
        c = self._controller
        self._plain = {device: (device.peak(), device.taken_peak(), device.outside())
                       for device in c.devices.now}
        settings = c.settings
        settings.measure_only = False
        if not settings.budget.isdigit():
            settings.budgeted = True
            settings.limit = phantom_room()

    def _end(self) -> None:
        self._write()
        path = os.path.join(self._folder, f"rehearsal.{os.getpid()}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.lines()) + "\n")
        _leave()

    def lines(self) -> list[str]:
        """The findings."""
        c = self._controller
        devices, tapes = c.devices.now, c.learning.latest_tapes
        first = devices[0]
        name, several = torch.cuda.get_device_name(first.cuda), len(devices) > 1
        names = " and ".join(device.name for device in devices)
        lines = [f"{name}, rank {_rank()}: {size(first.memory())}, of which "
                 f"{size(c.settings.limit)} for this job"
                 + (f", on each of {names}" if several else "")]
        for device in devices:
            lines += [f"  {device.name}"] if several else []
            lines += self._device_lines(device, tapes)
        if tapes is None or not tapes.planned:
            events = [e["detail"] for e in c.events.list[-3:]]
            why = "; ".join(map(str, events)) or "no block could be recomputed"
            return [*lines, f"  no plan was made: {why}"]
        return lines + self._cost_lines(tapes)

    def _device_lines(self, device: "Device", tapes: Optional["Tapes"]) -> list[str]:
        budget = self._controller.settings.limit
        allocated, taken, outside = self._plain.get(device, (0, 0, 0))
        lines = [
            f"  without a plan     tensors {size(allocated)}, taken from the device "
            f"{size(taken)} (by others than torch {size(outside)}): "
            f"{_fits(taken, budget)}"]
        for tape in tapes if tapes is not None and tapes.planned else ():
            if tape.device is not device:
                continue
            lines += [
                f"  lowest peak        tensors {size(tape.floor)}, every block "
                "recomputed where that helps",
                "  under the plan     tensors "
                f"{size(tape.predicted(tape.last_base))}, taken from the device "
                f"{size(device.peaks.last)}: {_fits(device.peaks.last, budget)}"]
        return lines

    def _cost_lines(self, tapes: "Tapes") -> list[str]:
        costs = self._controller.devices.costs
        assert costs is not None
        every = [costs.of(call) for call in tapes.calls]
        chosen = [costs.of(call) for call in tapes.recompute]
        flops, all_flops = (sum(c.flops for c in some) for some in (chosen, every))
        moved = sum(c.bytes for c in chosen)
        ms = sum(map(costs.rates.ms, chosen))
        share = 100 * flops / all_flops if all_flops else 0.0
        return [
            f"  recomputed         {len(tapes.recompute)} of {len(tapes.calls)} "
            f"blocks: {flops / 1e12:.3f} TFLOP, {size(moved)} read and written an "
            "iteration",
            f"                     ({share:.0f} % of all blocks' forwards), at least "
            f"{ms:.1f} ms at this device's peak rates"]


def _fits(taken: int, budget: int) -> str:
    return "it fits" if taken <= budget else "it does NOT fit"


def _rank() -> str:
    return os.environ.get("RANK", "0")


def _leave() -> NoReturn:
    """End the job."""
    sys.stdout.flush()
    if threading.current_thread() is not threading.main_thread():
        os._exit(0)
    raise SystemExit(0)
