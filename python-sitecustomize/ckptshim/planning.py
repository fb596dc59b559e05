"""From a recorded iteration to a plan in force, and corrections of it."""

from __future__ import annotations

import hashlib
import json
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Optional

import torch

from . import files, tensors
from .bridge import Agent, PlanError, Planner
from .device import Device
from .kinds import Kind, Tape, Tapes, recomputed
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
_ROUNDS = 4         # over all devices, until each is content with what others drop

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

    # -- the tape --------------------------------------------------------------

    def record(self, current: "Iteration", kind: Kind, device: Device) -> Tape:
        """What the agent recorded of a device in the iteration that just ended."""
        owners: dict[int, set[int]] = {}
        for index, call in enumerate(current.calls):
            for storage in call.storages:
                if storage >= 0:
                    owners.setdefault(storage, set()).add(index)
        storages = self._agent.storages()
        used = sorted(owners)
        segments = self._agent.segments()
        several = len(kind.devices) > 1
        calls = [_call_entry(c, current.trust, storages, several)
                 for c in current.calls]
        noted = [] if current.noted is None else current.noted.entries(
            {i for i, call in enumerate(calls) if call["dropped"]}, {*owners},
            segments, storages)
        root = kind.root()
        profile = {
            "root": kind.root_name, "key": kind.key,
            "fingerprint": fingerprint(current.calls), "size": current.size,
            "held": held(root, self.optimizers, device),
            "calls": calls,
            "storages": [{"bytes": storages[j].bytes, "freed": storages[j].freed,
                          "calls": sorted(owners[j])} for j in used],
            "noted": noted,
            "segments": [{"mark": chr(s.mark), "call": s.call, "live": s.live,
                          "peak": s.peak} for s in segments]}
        if several:
            profile["device"] = device.name
            here = {i for entry in noted for i in entry["calls"]}
            elsewhere = {i for i, call in enumerate(current.calls)
                         if max(call.storages, default=0) < 0}
            profile = dropped_anyway(profile, elsewhere - here)
        return Tape(device, profile)

    def document(self, tapes: Iterable[Tape]) -> dict[str, Any]:
        """A profile document of tapes."""
        names = dict.fromkeys(tape.device.name for tape in tapes)
        return {"format": "ckptagent.profile", "version": 1,
                "torch": torch.__version__, "device": ", ".join(names),
                "kinds": [tape.profile for tape in tapes]}

    # -- the plan --------------------------------------------------------------

    def solve(self, tapes: Tapes, bases: dict[Device, int], iteration: int) -> bool:
        """Make a plan for iterations that start at bases; False: none is made."""
        requests = [self._request(tape, bases[tape.device]) for tape in tapes]
        try:
            plans = self._best(tapes, requests)
        except PlanError as error:
            self._stand_down(str(error), iteration)
            return False
        changed = tapes.adopt(self._given_plan(tapes, requests) or plans, bases)
        self.made += changed
        if changed:
            self._announce(tapes, iteration)
        return True

    def _request(self, tape: Tape, base: int) -> dict[str, Any]:
        settings = self._settings
        value: Any = "min" if settings.minimum else max(0, settings.limit - tape.margin)
        # Without a budget: a plan file alone, which may be refused.
        planner = settings.planner if settings.budgeted else "no_checkpoint"
        return {"kind": 0, "planner": planner, "target": "budget", "value": value,
                "base_bytes": base}

    def _best(self, tapes: Tapes, requests: list[dict[str, Any]],
              ) -> list[dict[str, Any]]:
        """The cheapest plan for a device. For several: for one after the other beside
        what those before drop, until none wants more dropped; each one's view of it.
        """
        if len(requests) == 1:
            return [self._cheapest(tapes.each[0], set(), requests[0])]
        dropped: set[int] = set()
        for _ in range(_ROUNDS):
            known = len(dropped)
            plans = []
            for tape, request in zip(tapes, requests):
                plans.append(self._cheapest(tape, dropped, request))
                dropped |= recomputed(plans[-1:])
            if len(dropped) == known:
                break
        return [self._view(*each, dropped) for each in zip(tapes, requests, plans)]

    def _cheapest(self, tape: Tape, dropped: set[int],
                  request: dict[str, Any]) -> dict[str, Any]:
        """The plan for a device where some calls are dropped anyway. Where the margin
        cannot be left, the request becomes what can.
        """
        profile = dropped_anyway(tape.profile, dropped) if dropped else tape.profile
        document = self.document([Tape(tape.device, profile)])
        plan = self._planner.solve(document, request)
        floor = plan["floor_bytes"]
        if not plan["feasible"] and floor <= self._settings.limit and tape.margin:
            request["value"] = floor
            plan = self._planner.solve(document, request)
        return plan

    def _view(self, tape: Tape, request: dict[str, Any], plan: dict[str, Any],
              dropped: set[int]) -> dict[str, Any]:
        """What it means for a device that these calls are dropped."""
        decisions = [
            {**entry, "decision": "exclude" if not call["dropped"] else
             "recompute" if i in dropped else "keep"}
            for i, (entry, call) in enumerate(zip(plan["decisions"],
                                                  tape.profile["calls"]))]
        document = {"format": "ckptagent.plan", "version": 1,
                    "plans": [{**plan, "decisions": decisions}]}
        return self._planner.judge(json.dumps(document), self.document([tape]), request)

    def _given_plan(self, tapes: Tapes,
                    requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The plan of CKPT_PLAN for this kind, if it fits; else nothing."""
        if not self._settings.plan:
            return []
        try:
            text = files.text(self._settings.plan, _PLAN_BYTES)
            plans = [self._planner.judge(text, self.document([tape]), request)
                     for tape, request in zip(tapes, requests)]
            if len(plans) > 1:
                dropped = recomputed(plans)
                plans = [self._view(*each, dropped)
                         for each in zip(tapes, requests, plans)]
            return plans
        except (OSError, PlanError) as error:
            self._refuse(str(error))
            return []

    def _refuse(self, why: str) -> None:
        self._events.say_once("plan file",
                              f"CKPT_PLAN={self._settings.plan} is not used: {why}")

    def _stand_down(self, why: str, iteration: int) -> None:
        self._events.add(iteration, "stand_down", why)
        self._events.say_once("planner", f"no plan is made: {why}")

    def _announce(self, tapes: Tapes, iteration: int) -> None:
        line = f"budget {self._budget()}: {self._choice(tapes)}"
        self._events.add(iteration, "plan", line)
        for tape in tapes:
            if not tape.plan["feasible"]:
                self._events.say_once(f"floor {tape.device.name}",
                                      self._shortfall(tapes, tape))
        if self._settings.budgeted:
            self._events.say_once("plan", line)

    def _budget(self) -> str:
        if self._settings.minimum:
            return "min"
        return size(self._settings.limit) if self._settings.budgeted else "unset"

    def _choice(self, tapes: Tapes) -> str:
        """What the plan in force does, in words."""
        if self.off(tapes, quiet=True):
            return "nothing is recomputed, since CKPT_ON_INFEASIBLE=off"
        extra = sum(call.recompute_ms for call in tapes.recompute)
        forward = sum(call.forward_ms for call in tapes.calls)
        peaks = ", ".join(size(tape.plan["predicted_bytes"]) + _on(tapes, tape)
                          for tape in tapes)
        return (f"{len(tapes.recompute)} of {len(tapes.calls)} blocks are recomputed, "
                f"predicted peak {peaks}, {extra:.1f} ms more an iteration (all blocks "
                f"take {forward:.1f} ms forward)")

    def _shortfall(self, tapes: Tapes, tape: Tape) -> str:
        """Why the budget cannot be met on a device, with the arithmetic."""
        plan, parts = tape.plan, tape.profile["held"]
        known = ", ".join(f"{name} {size(count)}" for name, count in parts.items()
                          if count)
        place = _place(tape, plan["peak"])
        rest = plan["floor_bytes"] - sum(parts.values())
        return (f"the budget of {size(self._settings.limit)} cannot be met"
                f"{_on(tapes, tape)}: the lowest peak is {size(plan['floor_bytes'])}, "
                f"{place} ({known}, everything else there {size(max(0, rest))}); a "
                "smaller batch or a larger budget would help; "
                f"CKPT_ON_INFEASIBLE={self._settings.on_infeasible}")

    def off(self, tapes: Tapes, quiet: bool = False) -> bool:
        """Whether CKPT_ON_INFEASIBLE unwraps everything, or (unless quiet) raises."""
        choice = self._settings.on_infeasible
        if not tapes.planned:
            return True
        if tapes.feasible or self._settings.minimum or choice == "best_effort":
            return False
        if choice == "raise" and not quiet:
            worst = next(tape for tape in tapes if not tape.plan["feasible"])
            raise Infeasible("ckptagent: " + self._shortfall(tapes, worst))
        return True

    # -- corrections -----------------------------------------------------------

    def follow_base(self, tapes: Tapes, bases: dict[Device, int]) -> None:
        """Plan anew if the bytes held at the start moved enough to matter."""
        if self._settings.minimum or self._settings.plan or not tapes.planned:
            return
        if any(self._moved(tapes, tape, bases[tape.device]) for tape in tapes):
            self.solve(tapes, bases, 0)

    def _moved(self, tapes: Tapes, tape: Tape, base: int) -> bool:
        if base == tape.plan_base:
            return False
        budget = self._settings.limit
        rose = tape.predicted(base) > budget - tape.margin and tape.plan["feasible"]
        fell = (base < tape.plan_base - _IDLE * budget
                and bool(tapes.recompute or not tape.plan["feasible"]))
        return rose or fell

    def first_margin(self, peak: int, overhead: int) -> int:
        """What to leave for the device's caching allocator, from the tape's peak
        and by how much the allocator took more.
        """
        if not overhead or self._settings.minimum:
            return 0
        share = min(_OVERHEAD_MOST, max(_OVERHEAD_LEAST,
                                        _MORE * overhead / max(1, peak)))
        return int(self._settings.limit * share / (1 + share))

    def compare(self, tapes: Tapes, bases: dict[Device, int], iteration: int) -> None:
        """Judge the plan by what was measured; correct it if the budget broke."""
        if self._settings.minimum or not tapes.planned:
            return
        if any([self._corrects(tapes, tape, bases[tape.device], iteration)
                for tape in tapes]):
            self.solve(tapes, bases, iteration)

    def _corrects(self, tapes: Tapes, tape: Tape, base: int, iteration: int) -> bool:
        """Whether another margin is to be left on a device from now on."""
        limit, device = self._settings.limit, tape.device
        tape.followed += 1
        taken, overhead = device.peaks.last, device.overhead
        if not tape.plan["feasible"]:
            return False
        if taken > limit:
            self._events.over_budget(iteration - 1, taken, limit, _on(tapes, tape))
            if self._settings.plan:
                return False
            predicted = tape.predicted(base)
            # At least so much that this plan is none any more, and some for what
            # the allocator may take under the next one.
            spare = int(_SPARE * limit) if overhead else 0
            wrong = taken - overhead - predicted
            tape.margin = max(tape.margin + max(wrong, taken - limit),
                              limit - predicted + 1) + spare
            tape.relaxed = True
            return True
        # A first iteration finds nothing cached, and fragments less than later ones.
        if (tape.relaxed or tape.followed < 2 or not tapes.recompute
                or self._settings.plan):
            return False
        # Under the next plan it may need one segment more.
        spare = max(int(_SPARE * limit), device.largest_segment())
        needed = int(_MORE * overhead) + spare
        if tape.margin <= needed + _SPARE * limit:
            return False
        tape.relaxed = True     # the allocator needs less than was left to it
        tape.margin = (tape.margin + needed) // 2
        return True

    def sets_peak_alone(self, tapes: Tapes) -> Optional["Call"]:
        """The call that keeps a floor well above all others', if there is one."""
        found = (self._alone(tapes, tape) for tape in tapes)
        return next((call for call in found if call is not None), None)

    def _alone(self, tapes: Tapes, tape: Tape) -> Optional["Call"]:
        plan = tape.plan
        if plan["feasible"] and not self._settings.minimum:
            return None
        worst = plan["peak"]["call"]
        if plan["peak"]["mark"] not in _INSIDE:
            return None
        block = tapes.calls[worst].block
        peaks: list[int] = [0]
        inside = False
        for segment in tape.profile["segments"]:
            if segment["mark"] != "X":
                inside = (segment["mark"] in _INSIDE
                          and tapes.calls[segment["call"]].block is block)
            if not inside:
                peaks.append(segment["peak"])
        shift = plan["floor_bytes"] - max(peaks) - (tape.plan_base - tape.base)
        range_ = plan["plain_bytes"] - plan["floor_bytes"]
        return tapes.calls[worst] if shift > _ALONE * max(1, range_) else None


def dropped_anyway(profile: dict[str, Any], calls: set[int]) -> dict[str, Any]:
    """A tape where calls are dropped whatever the plan: what they save is never there,
    what their recomputes need always is.
    """
    segments = [
        {**s, "mark": "X", "call": -1} if s["mark"] in "BR" and s["call"] in calls
        else s for s in profile["segments"]]
    entries = [
        {**entry, "dropped": False, "reason": entry["reason"] or "saves_nothing",
         "saved_bytes": 0} if i in calls else entry
        for i, entry in enumerate(profile["calls"])]
    savers = [[c for c in storage["calls"] if c not in calls]
              for storage in profile["storages"]]
    storages = [{**storage, "calls": left}
                for storage, left in zip(profile["storages"], savers) if left]
    noted = [entry for entry in profile.get("noted", ())
             if calls.isdisjoint(entry["calls"])]
    return {**profile, "segments": segments, "calls": entries, "storages": storages,
            "noted": noted}


def fingerprint(calls: list["Call"]) -> str:
    """Sixteen hex digits of the blocks' names, classes and call numbers."""
    text = "\n".join(f"{c.block.name} {c.block.cls} {c.number}" for c in calls)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def held(root: Optional[torch.nn.Module], optimizers: Iterable[torch.optim.Optimizer],
         device: Device) -> dict[str, int]:
    """Bytes of a model, of all its gradients and of the optimizers' state on a device.
    """
    parts = {"parameters": 0, "gradients": 0, "optimizer": 0, "buffers": 0}
    if root is not None:
        for parameter in root.parameters():
            count = _bytes(parameter, device)
            parts["parameters"] += count
            if parameter.requires_grad:
                parts["gradients"] += count
        parts["buffers"] = sum(_bytes(b, device) for b in root.buffers())
    for optimizer in optimizers:
        parts["optimizer"] += sum(_bytes(t, device)
                                  for state in optimizer.state.values()
                                  for t in tensors.tensors_in(state))
    return parts


def _bytes(tensor: torch.Tensor, device: Device) -> int:
    if not device.has(tensor):
        return 0
    return tensor.numel() * tensor.element_size()


def _call_entry(call: "Call", trust: str, storages: Any,
                several: bool) -> dict[str, Any]:
    """several: these are the storages of one device among others."""
    block = call.block
    dropped = block.trusted(trust) and bool(call.storages)
    saved = call.saved_bytes
    if dropped:
        saved = sum(storages[j].bytes for j in set(call.storages) if j >= 0)
        if not several:
            call.saved_bytes = saved
    return {"name": block.name, "class": block.cls, "call": call.number,
            "dropped": dropped,
            "reason": None if dropped else block.reason or "saves_nothing",
            "saved_bytes": saved, "boundary_bytes": call.boundary_bytes,
            "forward_ms": call.forward_ms, "recompute_ms": call.recompute_ms}


def _on(tapes: Tapes, tape: Tape) -> str:
    """Which device is meant, where there are several."""
    return f" on {tape.device.name}" if len(tapes.each) > 1 else ""


def _place(tape: Tape, peak: dict[str, Any]) -> str:
    """Where a peak stands, in words."""
    what = {"S": "before the first block", "F": "in the forward of {}",
            "E": "after {}", "D": "after {}", "B": "in the recompute of {}",
            "R": "in the backward of {}"}
    name = peak["name"] or tape.profile["root"]
    return what.get(peak["mark"], "between blocks").format(name)
