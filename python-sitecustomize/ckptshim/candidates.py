"""The blocks of a job: found, opened into their parts, closed again."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from . import discover
from .blocks import Block, Call

_BLOCKS = 1024          # of modules that are gone are forgotten beyond this many
_NUMBERS = 65535        # that the ledger can tell apart
_OPENINGS = 64
_GAIN = 0.99            # of the floor: an opening must bring it below
_ALONE = 0.25           # of all saved bytes: a candidate worth opening at once

Parts = Callable[[discover.Candidate], list[discover.Candidate]]


class Candidates:
    """One per process.

    Attributes:
        by_module: the living blocks, by id of the module.
        all: dead ones included, if there are not too many.
        generation: counts the changes that make tapes stale.
        trial: a block that was opened, and each device's floor before.
        patch: routes a module's forward through the shim; whether it could.
        parts: the candidates in place of one; empty where it stays as it is.
        is_stack: whether those of a module are several of the same standing.
    """

    def __init__(self, selection: str, log: Callable[[str, str], None]) -> None:
        self.by_module: dict[int, Block] = {}
        self.all: list[Block] = []
        self.generation = 0
        self.trial: Optional[tuple[Block, list[int]]] = None
        self.patch: Callable[[torch.nn.Module], bool] = lambda module: False
        automatic = selection == "auto"
        self.parts: Parts = discover.open if automatic else lambda candidate: []
        self.is_stack: Callable[[torch.nn.Module], bool] = discover.is_stack
        self._log = log
        self._numbered = 0
        self._openings = 0

    def register(self, candidates: list[discover.Candidate], root: str) -> None:
        """Make blocks of modules; a name seen from further out replaces one."""
        for found in candidates:
            known = self.by_module.get(id(found.module))
            if known is not None and known.ref() is found.module:
                if len(found.name) > len(known.name):
                    known.name, known.root = found.name, root
                continue
            self._add(found, root)

    def _add(self, found: discover.Candidate, root: str) -> None:
        key = id(found.module)

        def gone(_: Any) -> None:
            try:
                self.by_module.pop(key, None)
                if len(self.all) > _BLOCKS and block in self.all:
                    self.all.remove(block)
            except Exception:       # nobody is there to hear of it
                pass

        reason = found.reason
        if reason is None and not self.patch(found.module):
            reason = "instance_forward"
        self._numbered = self._numbered % _NUMBERS + 1
        block = Block(found.name, root, found.module, self._numbered, gone, reason)
        self.by_module[key] = block
        self.all.append(block)

    def open(self, block: Block) -> bool:
        """Make the children of a block candidates in its place."""
        module = block.ref()
        if (module is None or block.opened or block.stays_closed
                or self._openings >= _OPENINGS):
            return False
        children = self.parts(discover.Candidate(block.name, module))
        if not children:
            return False
        block.opened = True
        self._openings += 1
        self.generation += 1
        known = len(self.all)
        self.register(children, block.root)
        block.parts = self.all[known:]
        self._log("info", f"{block.name or block.cls} is opened: "
                  f"{len(children)} blocks in its place")
        return True

    def worth_opening(self, call: Call, total: int) -> bool:
        """A candidate with a large share that is itself a stack of blocks."""
        module = call.block.ref()
        if module is None or call.saved_bytes < _ALONE * total:
            return False
        return self.is_stack(module)

    def close_again(self, floors: list[int]) -> bool:
        """Undo the opening on trial if it has not lowered the floor of any device."""
        trial, self.trial = self.trial, None
        if trial is None or any(floor < _GAIN * before
                                for floor, before in zip(floors, trial[1])):
            return False
        block = trial[0]
        block.opened, block.stays_closed = False, True
        for part in block.parts:
            part.barred = part.reason = "not_selected"
        self.generation += 1
        self._log("info", f"{block.name or block.cls} is one block again: "
                  "its parts need no less memory")
        return True
