"""The run's files in CKPT_OUT, and the line at the job's end."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

import torch

from . import files, interrupts
from .blocks import Call
from .units import size

if TYPE_CHECKING:
    from .blocks import Block
    from .controller import Controller

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
        if os.getpid() != self._pid or not controller.iterations:
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
        tapes = [k.latest for k in self._controller.kinds.values()
                 if k.latest is not None and k.latest.plan]
        if tapes:
            _write(folder, "profile.json", planning.document(tapes))
            _write(folder, "plan.json", {"format": "ckptagent.plan", "version": 1,
                                         "plans": [t.plan for t in tapes]})

    def document(self) -> dict[str, Any]:
        """The content of run.PID.json, as CONTRACT.md draws it."""
        c = self._controller
        tape = c.latest_tape
        plan = tape.plan if tape is not None else {}
        budget = c.settings.limit if c.settings.budget.isdigit() else None
        if c.settings.minimum and plan:
            budget = plan["budget_bytes"]
        feasible = plan.get("feasible", True) if plan else self._fits(budget)
        chosen = c.recomputed()
        ranges = {} if c.ranges is None else {"ranges": c.ranges.entries()}
        return {
            "format": "ckptagent.run", "version": 1, "pid": self._pid,
            "rank": _rank(), "device": c.device.name, "torch": torch.__version__,
            "budget_bytes": budget, "planner": c.settings.planner,
            "iterations": c.iterations,
            "peak_bytes": {"first": c.first_peak, "last": c.last_peak,
                           "max": c.max_peak, "predicted": c.predicted or 0},
            "floor_bytes": _floor(tape), "feasible": feasible,
            "kinds": [_kind(k) for k in c.kinds.values() if k.iterations],
            "blocks": [_call(b, call, call in chosen) for b in c.candidates.all
                       for call in _listed(b)],
            "events": c.events.list, **ranges}

    def _fits(self, budget: Any) -> bool:
        return budget is None or self._controller.last_peak <= budget

    def _closing_line(self) -> str:
        c = self._controller
        line = f"peak {size(c.last_peak)} in the last of {c.iterations} iterations"
        if c.max_peak > c.last_peak:
            line += f" (highest {size(c.max_peak)})"
        if c.settings.budget.isdigit():
            held = c.last_peak <= c.settings.limit
            line += f", budget {size(c.settings.limit)} " + (
                "held" if held else "not held")
        share = 100 * c.recompute_ms / c.wall_ms if c.wall_ms else 0.0
        return line + f", recomputing took {share:.1f} % of the time"


def _floor(tape: Any) -> int:
    """The lowest peak of any plan, for an iteration that starts like the last."""
    if tape is None or not tape.plan:
        return 0
    return int(tape.plan["floor_bytes"] + tape.last_base - tape.plan_base)


def _rank() -> int:
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdigit() else 0


def _kind(kind: Any) -> dict[str, Any]:
    tape = kind.latest
    plan = tape.plan if tape is not None else {}
    return {"root": kind.root_name, "key": kind.key, "iterations": kind.iterations,
            "peak_bytes": kind.peak,
            "predicted_bytes": plan.get("predicted_bytes", 0),
            "floor_bytes": _floor(tape)}


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
