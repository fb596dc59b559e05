"""From a recorded iteration to a plan in force, and corrections of it."""

from __future__ import annotations

import hashlib
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Optional

import torch

from . import files, tensors
from .bridge import Agent, PlanError, Planner
from .kinds import Kind, Tape
from .units import size

if TYPE_CHECKING:
    from .blocks import Call
    from .events import Events
    from .iteration import Iteration
    from .settings import Settings

_ALONE = 0.1        # of what planning can save: worth opening a block for
_INSIDE = "FBR"     # marks of segments that a block's own work fills
_PLAN_BYTES = 64 << 20     # the most that the planner reads
_IDLE = 0.01        # of the budget: less is no cause to plan anew

# What is left to a caching allocator, as a share of tensor memory: what it took
# in an iteration before and some more, since another plan fragments otherwise.
_MORE = 1.25
_SPARE = 0.03       # of the budget, left besides when a plan is made anew
_OVERHEAD_LEAST, _OVERHEAD_MOST = 0.06, 0.3


class Infeasible(RuntimeError):
    """The budget cannot be met and CKPT_ON_INFEASIBLE is raise."""


class Planning:
    """Records tapes, asks the planner, and judges its predictions."""

    def __init__(self, agent: Agent, planner: Planner, settings: "Settings",
                 events: "Events") -> None:
        self._agent = agent
        self._planner = planner
        self._settings = settings
        self._events = events
        self.optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.made = 0                                    # plans so far
        self.device = "cpu"

    # -- the tape --------------------------------------------------------------

    def record(self, current: "Iteration", kind: Kind) -> Tape:
        """What the agent recorded of the iteration that just ended."""
        owners: dict[int, set[int]] = {}
        for index, call in enumerate(current.calls):
            for storage in call.storages:
                if storage >= 0:
                    owners.setdefault(storage, set()).add(index)
        storages = self._agent.storages()
        used = sorted(owners)
        root = kind.root()
        profile = {
            "root": kind.root_name, "key": kind.key,
            "fingerprint": fingerprint(current.calls), "size": current.size,
            "held": held(root, self.optimizers),
            "calls": [_call_entry(c, current.trust, storages) for c in current.calls],
            "storages": [{"bytes": storages[j].bytes, "freed": storages[j].freed,
                          "calls": sorted(owners[j])} for j in used],
            "segments": [{"mark": chr(s.mark), "call": s.call, "live": s.live,
                          "peak": s.peak} for s in self._agent.segments()]}
        return Tape(current.shapes, list(current.calls), profile)

    def document(self, tapes: list[Tape]) -> dict[str, Any]:
        """A profile document of tapes."""
        return {"format": "ckptagent.profile", "version": 1,
                "torch": torch.__version__, "device": self.device,
                "kinds": [t.profile for t in tapes]}

    # -- the plan --------------------------------------------------------------

    def solve(self, tape: Tape, base: int, iteration: int) -> bool:
        """Make a plan for iterations that start at base; False: none is made."""
        settings = self._settings
        value: Any = "min" if settings.minimum else max(0, settings.limit - tape.margin)
        request = {"kind": 0, "planner": settings.planner, "target": "budget",
                   "value": value, "base_bytes": base}
        profile = self.document([tape])
        if not settings.budgeted:       # a plan file alone, which may be refused
            request["planner"] = "no_checkpoint"
        try:
            plan = self._planner.solve(profile, request)
            floor = plan["floor_bytes"]
            if not plan["feasible"] and floor <= settings.limit and tape.margin:
                request["value"] = floor        # less than the margin can be left
                plan = self._planner.solve(profile, request)
        except PlanError as error:
            self._stand_down(str(error), iteration)
            return False
        changed = tape.adopt(self._given_plan(profile, request) or plan, base)
        self.made += changed
        if changed:
            self._announce(tape, iteration)
        return True

    def _given_plan(self, profile: dict[str, Any],
                    request: dict[str, Any]) -> Optional[dict[str, Any]]:
        """The plan of CKPT_PLAN for this kind, if it fits."""
        if not self._settings.plan:
            return None
        try:
            plan = files.text(self._settings.plan, _PLAN_BYTES)
            return self._planner.judge(plan, profile, request)
        except (OSError, PlanError) as error:
            self._refuse(str(error))
            return None

    def _refuse(self, why: str) -> None:
        self._events.say_once("plan file",
                              f"CKPT_PLAN={self._settings.plan} is not used: {why}")

    def _stand_down(self, why: str, iteration: int) -> None:
        self._events.add(iteration, "stand_down", why)
        self._events.say_once("planner", f"no plan is made: {why}")

    def _announce(self, tape: Tape, iteration: int) -> None:
        line = f"budget {self._budget()}: {self._choice(tape)}"
        self._events.add(iteration, "plan", line)
        if not tape.plan["feasible"]:
            self._events.say_once("floor", self._shortfall(tape))
        if self._settings.budgeted:
            self._events.say_once("plan", line)

    def _budget(self) -> str:
        if self._settings.minimum:
            return "min"
        return size(self._settings.limit) if self._settings.budgeted else "unset"

    def _choice(self, tape: Tape) -> str:
        """What the plan in force does, in words."""
        if self.off(tape, quiet=True):
            return "nothing is recomputed, since CKPT_ON_INFEASIBLE=off"
        extra = sum(call.recompute_ms for call in tape.recompute)
        forward = sum(call.forward_ms for call in tape.calls)
        return (f"{len(tape.recompute)} of {len(tape.calls)} blocks are recomputed, "
                f"predicted peak {size(tape.plan['predicted_bytes'])}, {extra:.1f} ms "
                f"more an iteration (all blocks take {forward:.1f} ms forward)")

    def _shortfall(self, tape: Tape) -> str:
        """Why the budget cannot be met, with the arithmetic."""
        plan, parts = tape.plan, tape.profile["held"]
        known = ", ".join(f"{name} {size(count)}" for name, count in parts.items()
                          if count)
        place = _place(tape, plan["peak"])
        rest = plan["floor_bytes"] - sum(parts.values())
        return (f"the budget of {size(self._settings.limit)} cannot be met: the lowest "
                f"peak is {size(plan['floor_bytes'])}, {place} ({known}, everything "
                f"else there {size(max(0, rest))}); a smaller batch or a larger budget "
                f"would help; CKPT_ON_INFEASIBLE={self._settings.on_infeasible}")

    def off(self, tape: Tape, quiet: bool = False) -> bool:
        """Whether CKPT_ON_INFEASIBLE unwraps everything, or (unless quiet) raises."""
        plan, choice = tape.plan, self._settings.on_infeasible
        if not plan:
            return True
        if plan["feasible"] or self._settings.minimum or choice == "best_effort":
            return False
        if choice == "raise" and not quiet:
            raise Infeasible("ckptagent: " + self._shortfall(tape))
        return True

    # -- corrections -----------------------------------------------------------

    def follow_base(self, tape: Tape, base: int) -> None:
        """Plan anew if the bytes held at the start moved enough to matter."""
        if (self._settings.minimum or self._settings.plan or not tape.plan
                or base == tape.plan_base):
            return
        budget = self._settings.limit
        rose = tape.predicted(base) > budget - tape.margin and tape.plan["feasible"]
        fell = (base < tape.plan_base - _IDLE * budget
                and (tape.recompute or not tape.plan["feasible"]))
        if rose or fell:
            self.solve(tape, base, 0)

    def first_margin(self, peak: int, overhead: int) -> int:
        """What to leave for the device's caching allocator, from the tape's peak
        and by how much the allocator took more.
        """
        if not overhead or self._settings.minimum:
            return 0
        share = min(_OVERHEAD_MOST, max(_OVERHEAD_LEAST,
                                        _MORE * overhead / max(1, peak)))
        return int(self._settings.limit * share / (1 + share))

    def compare(self, tape: Tape, base: int, peak: int, overhead: int,
                iteration: int) -> None:
        """Judge the plan by a measured peak; correct it if the budget broke.

        overhead: by how much the caching allocator took more from the device.
        """
        limit, taken = self._settings.limit, peak + overhead
        if self._settings.minimum or not tape.plan or not tape.plan["feasible"]:
            return
        if taken > limit:
            self._events.over_budget(iteration - 1, taken, limit)
            if self._settings.plan:
                return
            predicted = tape.predicted(base)
            # At least so much that this plan is none any more, and some for what
            # the allocator may take under the next one.
            spare = int(_SPARE * limit) if overhead else 0
            tape.margin = max(tape.margin + max(peak - predicted, taken - limit),
                              limit - predicted + 1) + spare
            tape.relaxed = True
            self.solve(tape, base, iteration)
        elif not tape.relaxed and tape.recompute and not self._settings.plan:
            needed = int(_MORE * overhead + _SPARE * limit)
            if tape.margin > needed + _SPARE * limit:
                tape.relaxed = True     # the allocator needs less than was left to it
                # Half of it: under the next plan it may need more.
                tape.margin = (tape.margin + needed) // 2
                self.solve(tape, base, iteration)

    def sets_peak_alone(self, tape: Tape) -> Optional["Call"]:
        """The call that keeps the floor well above all others', if there is one."""
        plan = tape.plan
        if not plan or (plan["feasible"] and not self._settings.minimum):
            return None
        worst = plan["peak"]["call"]
        if plan["peak"]["mark"] not in _INSIDE:
            return None
        block = tape.calls[worst].block
        peaks: list[int] = [0]
        inside = False
        for segment in tape.profile["segments"]:
            if segment["mark"] != "X":
                inside = (segment["mark"] in _INSIDE
                          and tape.calls[segment["call"]].block is block)
            if not inside:
                peaks.append(segment["peak"])
        shift = plan["floor_bytes"] - max(peaks) - (tape.plan_base - tape.base)
        range_ = plan["plain_bytes"] - plan["floor_bytes"]
        return tape.calls[worst] if shift > _ALONE * max(1, range_) else None


def fingerprint(calls: list["Call"]) -> str:
    """Sixteen hex digits of the blocks' names, classes and call numbers."""
    text = "\n".join(f"{c.block.name} {c.block.cls} {c.number}" for c in calls)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def held(root: Optional[torch.nn.Module],
         optimizers: Iterable[torch.optim.Optimizer]) -> dict[str, int]:
    """Bytes of a model, of all its gradients and of the optimizers' state."""
    parts = {"parameters": 0, "gradients": 0, "optimizer": 0, "buffers": 0}
    if root is not None:
        for parameter in root.parameters():
            parts["parameters"] += _bytes(parameter)
            if parameter.requires_grad:
                parts["gradients"] += _bytes(parameter)
        parts["buffers"] = sum(_bytes(b) for b in root.buffers())
    for optimizer in optimizers:
        parts["optimizer"] += sum(_bytes(t) for state in optimizer.state.values()
                                  for t in tensors.tensors_in(state))
    return parts


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _call_entry(call: "Call", trust: str, storages: Any) -> dict[str, Any]:
    block = call.block
    dropped = block.trusted(trust)
    if dropped and call.storages:
        known = [storages[j].bytes for j in set(call.storages) if j >= 0]
        call.saved_bytes = sum(known)
    return {"name": block.name, "class": block.cls, "call": call.number,
            "dropped": dropped and bool(call.storages),
            "reason": None if dropped and call.storages else
            block.reason or "saves_nothing",
            "saved_bytes": call.saved_bytes, "boundary_bytes": call.boundary_bytes,
            "forward_ms": call.forward_ms, "recompute_ms": call.recompute_ms}


def _place(tape: Tape, peak: dict[str, Any]) -> str:
    """Where a peak stands, in words."""
    what = {"S": "before the first block", "F": "in the forward of {}",
            "E": "after {}", "D": "after {}", "B": "in the recompute of {}",
            "R": "in the backward of {}"}
    name = peak["name"] or tape.profile["root"]
    return what.get(peak["mark"], "between blocks").format(name)
