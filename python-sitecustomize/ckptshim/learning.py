"""What iterations teach: how the next one of a kind is to run, and what to make of
one that has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch

from .device import Device
from .iteration import Iteration
from .kinds import Kind, Signature, Tapes

if TYPE_CHECKING:
    from .blocks import Call
    from .bridge import Agent
    from .candidates import Candidates
    from .devices import Devices
    from .events import Events
    from .planning import Planning
    from .settings import Settings

_KINDS = 32             # remembered
_PROVE_ROUNDS = 4
_TAPE_ROUNDS = 4
_RENEWALS = 4


class Learning:
    """One per process. A kind is proven first, then recorded with everything dropped,
    then planned; or it fits, and is free.
    """

    def __init__(self, agent: "Agent", settings: "Settings", events: "Events",
                 planning: "Planning", devices: "Devices",
                 candidates: "Candidates") -> None:
        self.kinds: dict[tuple[int, str], Kind] = {}
        self._agent = agent
        self._settings = settings
        self._events = events
        self._planning = planning
        self._devices = devices
        self._candidates = candidates

    def kind(self, module: torch.nn.Module, signature: Signature) -> Kind:
        """That of an iteration that begins with this call of its root."""
        key = (id(module), signature.key)
        generation = self._candidates.generation
        kind = self.kinds.get(key)
        if kind is None or kind.root() is not module:
            while len(self.kinds) >= _KINDS:
                del self.kinds[min(self.kinds, key=lambda k: self.kinds[k].used)]
            kind = Kind(module, signature)
            kind.generation = generation
            self.kinds[key] = kind
        if kind.generation != generation and kind.state != "free":
            kind.restart(generation)
        return kind

    def choose(self, kind: Kind, signature: Signature,
               bases: dict[Device, int]) -> tuple[str, Optional[Tapes]]:
        """The mode of an iteration that is about to start, and its tapes."""
        if self._settings.measure_only:
            return ("free" if kind.iterations else "measure"), None
        if kind.state == "free":
            if kind.still_fits(bases, self._settings.limit):
                return "free", None
            self._prove_again(kind)
        if kind.state == "prove":
            return "prove", None
        tapes = kind.find(signature.shapes)
        if tapes is None or kind.state == "tape":
            return "tape", None
        self._planning.follow_base(tapes, bases)
        if self._planning.off(tapes):
            return "free", tapes
        return "planned", tapes

    def note_peaks(self, current: Iteration, number: int) -> None:
        """What an iteration took; number: of how many that have ended."""
        kind = current.kind
        kind.iterations += 1
        kind.used = number
        kind.peak = max(kind.peak, self._devices.peaks.last)
        kind.last = {device: (base, device.peaks.last)
                     for device, base in current.bases.items()}
        for tape in current.tapes or ():
            tape.last_base = current.bases[tape.device]

    def learn(self, current: Iteration, number: int) -> bool:
        """Draw the consequences of an iteration; whether another plan is in force."""
        made = self._planning.made
        taken = self._devices.peaks.last
        over = not self._settings.minimum and taken > self._settings.limit
        if current.mode == "prove":
            self._after_proofs(current, over)
        elif current.mode == "tape":
            self._after_tape(current, number)
        elif current.mode == "planned":
            self._after_plan(current, over, number)
        elif over and current.tapes is None:
            self._events.over_budget(number - 1, taken, self._settings.limit)
            self._prove_again(current.kind)
        return self._planning.made != made

    def _after_proofs(self, current: Iteration, over: bool) -> None:
        kind = current.kind
        if not over and not current.proofs and not current.spilled \
                and not self._settings.must_plan and not kind.must_prove:
            kind.state = "free"
            return
        kind.must_prove = True
        kind.rounds += 1
        calls = [c for c in current.calls if not c.block.opened]
        total = sum(c.saved_bytes for c in calls)
        opened = [c for c in calls if self._candidates.worth_opening(c, total)
                  and self._candidates.open(c.block)]
        excluded = [c.block for c in calls if c.block.refused(current.trust)]
        for block in dict.fromkeys(excluded):
            if self._candidates.open(block):
                opened.append(block.calls[0])
        pending = current.late or any(c.block.open_question(current.trust)
                                      for c in calls)
        kind.generation = self._candidates.generation
        if (opened or pending) and kind.rounds < _PROVE_ROUNDS:
            return
        kind.state, kind.rounds = "tape", 0

    def _after_tape(self, current: Iteration, number: int) -> None:
        kind = current.kind
        kind.rounds += 1
        if (current.irregular or current.recomputing or current.failed
                or self._agent.tape_full()):
            if kind.rounds >= _TAPE_ROUNDS:
                kind.state, kind.rounds = "planned", 0
            return
        device = current.taped
        assert device is not None
        tape = self._planning.record(current, kind, device)
        tape.margin = self._planning.first_margin(device.peak(), device.overhead)
        kind.rounds = 0
        tapes = kind.keep_tape(tape, current.shapes, current.size, current.calls[:])
        if tapes is None:
            return
        kind.state = "planned"
        if self._planning.solve(tapes, current.bases, number):
            self._open_or_close(kind, tapes)

    def _open_or_close(self, kind: Kind, tapes: Tapes) -> None:
        """Judge by a first plan whether a block had better be several, or one again."""
        candidates = self._candidates
        if candidates.close_again(tapes.floors):
            kind.restart(candidates.generation)
            return
        call = self._planning.sets_peak_alone(tapes)
        if call is not None and candidates.open(call.block):
            candidates.trial = call.block, tapes.floors
            kind.restart(candidates.generation)

    def _after_plan(self, current: Iteration, over: bool, number: int) -> None:
        kind, tapes = current.kind, current.tapes
        assert tapes is not None
        if kind.renewals < _RENEWALS and self._is_worth_a_look(current, tapes, over):
            kind.renewals += 1
            self._prove_again(kind)
        elif current.strange and kind.rounds < _TAPE_ROUNDS:
            kind.state = "tape"         # more calls than the tapes have seen
            kind.rounds += 1
        elif current.irregular:
            return
        elif kind.renewals < _RENEWALS and self._is_outdated(current, tapes, over):
            kind.state = "tape"
            kind.renewals += 1
        else:
            self._planning.compare(tapes, current.bases, number)

    def _is_worth_a_look(self, current: Iteration, tapes: Tapes, over: bool) -> bool:
        """Whether blocks that no proof has met yet may make the plan a better one, or
        those that had nothing to save when they were looked at.
        """
        if current.unmet and (over or self._settings.minimum):
            return True
        unforeseen = (over and tapes.feasible
                      or self._settings.minimum and tapes.exceeded(current.bases))
        return unforeseen and any(block.had_nothing(current.trust)
                                  for block in self._candidates.all)

    def _is_outdated(self, current: Iteration, tapes: Tapes, over: bool) -> bool:
        """Whether the job takes more than its tapes tell, and no margin mends that."""
        mended = over and tapes.feasible or not (over or self._settings.minimum)
        return not mended and tapes.exceeded(current.bases)

    def _prove_again(self, kind: Kind) -> None:
        """The budget is too small for what is known of this kind."""
        for block in self._candidates.all:
            block.ask_again(kind.trust)
        kind.restart(self._candidates.generation, must_prove=True)

    # -- what the report asks -----------------------------------------------

    @property
    def latest_tapes(self) -> Optional[Tapes]:
        """Those of the kind that ran last."""
        kinds = [k for k in self.kinds.values() if k.latest is not None]
        return max(kinds, key=lambda k: k.used).latest if kinds else None

    def recomputed(self) -> "set[Call]":
        """The calls that the plans in force recompute."""
        chosen: set[Call] = set()
        for kind in self.kinds.values():
            if kind.latest is not None and not self._planning.off(kind.latest, True):
                chosen |= kind.latest.recompute
        return chosen
