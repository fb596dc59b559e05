"""The run's files in CKPT_OUT, and the line at the job's end."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Optional

import torch

from . import files, interrupts
from .blocks import Call
from .units import size

if TYPE_CHECKING:
    from .blocks import Block
    from .controller import Controller
    from .device import Device, Peaks
    from .kinds import Kind, Tape, Tapes

_MODE = 0o600


class Report:
    """Writes run.PID.json, profile.json and plan.json."""

    def __init__(self, controller: "Controller") -> None:
        self._controller = controller
        self._pid = os.getpid()
        self._plans = 0
        self._broken = False

    def after_fork(self) -> None:
        """A child has a report of its own."""
        self._pid = os.getpid()

    def after_iteration(self) -> None:
        """Write once more if a plan was made."""
        plans = self._controller.planning.made
        if plans != self._plans:
            self._plans = plans
            self.write()

    def at_exit(self) -> None:
        """The last word, if this process trained."""
        try:
            self._end()
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise
            self._controller.agent.log("warning", f"the report failed: {error!r}")

    def _end(self) -> None:
        controller = self._controller
        if os.getpid() != self._pid:
            return
        controller.finish_first()
        if not controller.iterations:
            return
        self.write()
        if controller.settings.budget not in ("unset", ""):
            controller.agent.log("warning", self._closing_line())

    def write(self) -> None:
        """Write every file; a folder that cannot be written is said once."""
        folder = self._controller.settings.out
        if not folder or self._broken:
            return
        try:
            self._write_all(folder)
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise
            self._broken = True
            self._controller.agent.log(
                "warning", f"CKPT_OUT={folder} cannot be written: {error}")

    def _write_all(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        _write(folder, f"run.{self._pid}.json", self.document())
        planning = self._controller.planning
        tapes = [tape for kind in self._controller.learning.kinds.values()
                 for tape in _planned(kind.latest)]
        if tapes:
            _write(folder, "profile.json", planning.document(tapes))
            _write(folder, "plan.json", {"format": "ckptagent.plan", "version": 1,
                                         "plans": [t.plan for t in tapes]})

    def document(self) -> dict[str, Any]:
        """The content of run.PID.json, as CONTRACT.md draws it."""
        c = self._controller
        tapes = c.learning.latest_tapes
        planned = tapes is not None and tapes.planned
        budget = c.settings.limit if c.settings.budget.isdigit() else None
        if c.settings.minimum and tapes is not None and planned:
            budget = max(tape.minimum for tape in tapes)
        feasible = self._feasible(tapes) if planned else self._fits(budget)
        chosen = c.learning.recomputed()
        ranges = {} if c.ranges is None else {"ranges": c.ranges.entries()}
        devices = c.devices.measured()
        several = {"devices": [_device(d, tapes) for d in devices]}
        return {
            "format": "ckptagent.run", "version": 1, "pid": self._pid,
            "rank": _rank(), "device": c.devices.tightest.name,
            "torch": torch.__version__,
            "budget_bytes": budget, "planner": c.settings.planner,
            "iterations": c.iterations,
            "peak_bytes": _peaks(c.devices.peaks, _predicted(tapes)),
            "floor_bytes": _floor(tapes), "feasible": feasible,
            "kinds": [_kind(k) for k in c.learning.kinds.values() if k.iterations],
            "blocks": [_call(b, call, call in chosen) for b in c.candidates.all
                       for call in _listed(b)],
            "events": c.events.list, **ranges, **(several if devices[1:] else {})}

    def _feasible(self, tapes: Any) -> bool:
        return bool(self._controller.settings.minimum or tapes.feasible)

    def _fits(self, budget: Any) -> bool:
        return budget is None or self._controller.devices.peaks.last <= budget

    def _where(self) -> str:
        devices = self._controller.devices
        return f" on {devices.tightest.name}" if len(devices.now) > 1 else ""

    def _closing_line(self) -> str:
        c = self._controller
        peaks = c.devices.peaks
        line = f"peak {size(peaks.last)}{self._where()} in the last of " \
               f"{c.iterations} iterations"
        if peaks.max > peaks.last:
            line += f" (highest {size(peaks.max)})"
        if c.settings.budget.isdigit():
            held = peaks.last <= c.settings.limit
            line += f", budget {size(c.settings.limit)} " + (
                "held" if held else "not held")
        share = 100 * c.recompute_ms / c.wall_ms if c.wall_ms else 0.0
        return line + f", recomputing took {share:.1f} % of the time"


def _planned(tapes: Optional["Tapes"],
             device: Optional["Device"] = None) -> list["Tape"]:
    """The tapes with a plan: of all devices, or of one."""
    if tapes is None or not tapes.planned:
        return []
    return [tape for tape in tapes if device in (None, tape.device)]


def _floor(tapes: Optional["Tapes"], device: Optional["Device"] = None) -> int:
    """The highest of their floors; 0: no plan was made."""
    return max((tape.floor for tape in _planned(tapes, device)), default=0)


def _predicted(tapes: Optional["Tapes"], device: Optional["Device"] = None) -> int:
    """The peak that the plan in force predicts; 0: there is none."""
    return max((tape.predicted(tape.last_base) + tape.device.overhead
                for tape in _planned(tapes, device)), default=0)


def _peaks(peaks: "Peaks", predicted: int) -> dict[str, int]:
    return {"first": peaks.first, "last": peaks.last, "max": peaks.max,
            "predicted": predicted}


def _device(device: "Device", tapes: Optional["Tapes"]) -> dict[str, Any]:
    return {"device": device.name,
            "peak_bytes": _peaks(device.peaks, _predicted(tapes, device)),
            "floor_bytes": _floor(tapes, device)}


def _rank() -> int:
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdigit() else 0


def _kind(kind: "Kind") -> dict[str, Any]:
    predicted = [tape.plan["predicted_bytes"] for tape in _planned(kind.latest)]
    return {"root": kind.root_name, "key": kind.key, "iterations": kind.iterations,
            "peak_bytes": kind.peak,
            "predicted_bytes": max(predicted, default=0),
            "floor_bytes": _floor(kind.latest)}


def _listed(block: "Block") -> list["Call"]:
    """The calls of a block that the report shows; one for a barred block."""
    if block.opened:
        return []
    if block.barred and not block.calls:
        return [Call(block, 0)]
    return [call for call in block.calls if call.calls]


def _call(block: "Block", call: "Call", chosen: bool) -> dict[str, Any]:
    excluded = block.reason is not None
    decision = "recompute" if chosen else "exclude" if excluded else "keep"
    reason = block.reason if decision == "exclude" else None
    return {"root": block.root, "name": block.name, "class": block.cls,
            "call": call.number, "calls": call.calls, "decision": decision,
            "reason": reason, "saved_bytes": call.saved_bytes,
            "boundary_bytes": call.boundary_bytes,
            "forward_ms": round(call.forward_ms, 4), "recomputes": call.recomputes}


def _write(folder: str, name: str, document: dict[str, Any]) -> None:
    handle, path = files.temporary(folder, f".{name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.chmod(path, _MODE)
        os.replace(path, os.path.join(folder, name))
    except BaseException:
        with contextlib.suppress(OSError):      # the folder may be gone
            os.unlink(path)
        raise
