"""Blocks that the job's own NVTX ranges name (CKPT_BLOCKS=nvtx).

While roots are learned, each module call is told to the ranges that are open
around it and in which no other module call is under way. One that has seen one
call when it is closed names that module; one that has seen several is reported
as it is. A range's first call is made a block at once, so that it is watched
and proven in this very forward; if others follow in the range, it is none from
then on. Of modules inside each other the outermost is the block; it is opened
into those inside as under ``auto``. The root is one only if nothing inside has
a name, and then from the next iteration on.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Optional

import torch
from torch import nn

from . import discover, plain
from .blocks import Block
from .bridge import RangeBytes
from .discover import Candidate

if TYPE_CHECKING:
    from .bridge import Agent
    from .candidates import Candidates
    from .device import Device
    from .events import Events

_TEXTS = 1023           # that are reported, as many as the ledger has numbers for
_OPENINGS = 1 << 16     # of ranges in one iteration
_SAY_AFTER = 2          # iterations without a name


class Opening:
    """One opening of a range, and the module calls seen in it."""

    __slots__ = ("text", "calls", "first")

    def __init__(self, text: str, module: nn.Module) -> None:
        self.text = text
        self.calls = 0
        self.first = weakref.ref(module)


class Text:
    """What is reported of all ranges with one text.

    Attributes:
        number: in the ledger; 0: its bytes are not counted.
        calls: the most module calls in one opening.
        bytes: what belonged to it in the last iteration that opened it.
        block: the first block that it named.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0
        self.bytes = RangeBytes()
        self.block: Optional[Block] = None


class _Around(threading.local):
    """The module call under way on a thread."""

    def __init__(self) -> None:
        self.ranges: frozenset[int] = frozenset()   # open around it
        self.root: Optional[nn.Module] = None       # outermost, None: no call
        self.block = False                          # it is one, or inside one


class Ranges:
    """One per process; methods are called by module calls and iterations' ends."""

    def __init__(self, agent: "Agent", candidates: "Candidates",
                 events: "Events") -> None:
        self._agent = agent
        self._candidates = candidates
        self._events = events
        self._around = _Around()
        self._openings: dict[int, Opening] = {}
        self._texts: dict[str, Text] = {}
        self._named: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._roots: dict[int, weakref.ref[nn.Module]] = {}
        self._tried: list[tuple[Block, nn.Module]] = []     # and their roots
        self._iterations = 0
        self._watched = False               # a call was seen in this iteration
        candidates.parts = self._parts
        candidates.is_stack = lambda module: len(list(self._inside(module))) > 1

    # -- module calls --------------------------------------------------------

    def call_begins(self, module: nn.Module) -> Optional[dict[str, Any]]:
        """Just before a call. What ``call_ends`` is to be told; None: nothing."""
        if not torch.is_grad_enabled() or plain.must_be_plain():
            return None
        self._watched = True
        around = self._around
        outside = dict(around.__dict__)
        opened = self._agent.ranges()
        fresh = [r for r in opened if r[0] not in around.ranges]
        text = self._count(module, fresh)
        if around.root is None:
            around.root = module
            self._roots.setdefault(id(module), weakref.ref(module))
        elif text and not around.block:
            self._try(module, text, around.root)
        around.block = around.block or self._is_block(module)
        around.ranges = frozenset(number for number, _ in opened)
        return outside

    def call_ends(self, outside: dict[str, Any]) -> None:
        """It has returned, or raised."""
        self._around.__dict__.update(outside)

    def _count(self, module: nn.Module, fresh: list[tuple[int, str]]) -> str:
        """Tell ranges of a call; the text of the innermost that sees its first."""
        first = ""
        for number, text in fresh:
            opening = self._openings.get(number)
            if opening is None:
                if not text or len(self._openings) >= _OPENINGS:
                    continue
                opening = self._openings[number] = Opening(text, module)
                self._report(text, number)
                first = first or text
            opening.calls += 1
        return first

    def _report(self, text: str, number: int) -> None:
        if text not in self._texts and len(self._texts) < _TEXTS:
            self._texts[text] = Text(self._agent.range_number(number))

    def _is_block(self, module: nn.Module) -> bool:
        block = self._block(module)
        return block is not None and not block.opened and not block.barred

    def _block(self, module: nn.Module) -> Optional[Block]:
        block = self._candidates.by_module.get(id(module))
        return block if block is not None and block.ref() is module else None

    def _try(self, module: nn.Module, text: str, root: nn.Module) -> None:
        if self._block(module) is None and not _is_list(module):
            self._register([Candidate(text, module, discover.barred(module))], root)
            block = self._block(module)
            if block is not None:
                self._tried.append((block, root))

    def _register(self, found: list[Candidate], root: nn.Module) -> None:
        """Make blocks of modules that are none; each with a name of its own."""
        for candidate in found:
            name = self._unused(candidate.name, candidate.module, root)
            self._candidates.register([candidate._replace(name=name)],
                                      type(root).__name__)

    def _unused(self, text: str, module: nn.Module, root: nn.Module) -> str:
        """The text; with where the module is, if another block has that name."""
        used = {block.name for block in self._candidates.all}
        if text not in used:
            return text
        name = f"{text} ({_dotted(module, root) or type(module).__name__})"
        count = 2
        while name in used:
            name = f"{text} ({count})"
            count += 1
        return name

    # -- iterations ----------------------------------------------------------

    def settle(self, devices: list["Device"]) -> bool:
        """An iteration that worked on these devices has ended. Whether there are blocks
        that it has not tried.
        """
        self._iterations += 1
        if not self._watched:
            self._openings.clear()      # they may have seen less than there was
        self._watched = False
        self._judge()
        tried, self._tried = self._tried, []
        for block, root in tried:
            module = block.ref()
            if module is not None and self._name(module) is None:
                block.barred = block.reason = "not_selected"
                block.name = _dotted(module, root)
        late = self._find()
        self._enter_blocks()
        self._measure(devices)
        if self._iterations == _SAY_AFTER and not self._named:
            self._say_nothing_named()
        if late or tried:
            self._candidates.generation += 1
        return late

    def _judge(self) -> None:
        """Learn from what the openings have seen; those that are closed may name."""
        if not self._openings:
            return
        still = {number for number, _ in self._agent.ranges()}
        for number, opening in list(self._openings.items()):
            text, module = self._texts.get(opening.text), opening.first()
            if text is not None:
                text.calls = max(text.calls, opening.calls)
            if number in still:
                continue
            del self._openings[number]
            if opening.calls == 1 and module is not None:
                self._named.setdefault(id(module), (opening.first, opening.text))

    def _name(self, module: nn.Module) -> Optional[str]:
        """The text that names a module."""
        ref, text = self._named.get(id(module), (None, None))
        return text if ref is not None and ref() is module else None

    def _inside(self, module: nn.Module) -> Iterator[Candidate]:
        """The outermost modules with a name, in another or (alone) itself."""
        for found in discover.outermost(
                module, lambda _, inner: self._name(inner) is not None):
            text = self._name(found.module)
            if text is not None:
                yield found._replace(name=text)

    def _parts(self, candidate: Candidate) -> list[Candidate]:
        parts = [c for c in self._inside(candidate.module)
                 if c.module is not candidate.module]
        return [c._replace(name=self._unused(c.name, c.module, candidate.module))
                for c in parts if self._block(c.module) is None]

    def _find(self) -> bool:
        """Make blocks of what has a name and was not tried; whether there was any."""
        known = len(self._candidates.all)
        for key, ref in list(self._roots.items()):
            root = ref()
            if root is None:
                del self._roots[key]
                continue
            found = [c for c in self._inside(root) if self._block(c.module) is None]
            self._register(found, root)
        return len(self._candidates.all) > known

    def _enter_blocks(self) -> None:
        """Which block each text has named first."""
        for ref, name in self._named.values():
            text, module = self._texts.get(name), ref()
            if text is not None and text.block is None and module is not None:
                text.block = self._block(module)

    def _measure(self, devices: list["Device"]) -> None:
        """The bytes of each text at the iteration's peaks, all devices together."""
        counted = [text for text in self._texts.values() if text.number]
        if not counted:
            return
        numbers = 1 + max(t.number for t in counted)
        found = [self._agent.range_bytes(d.index, numbers) for d in devices]
        for text in counted:
            each = [bytes_[text.number] for bytes_ in found]
            if each[0].openings != text.bytes.openings:
                text.bytes = RangeBytes(each[0].openings, sum(b.tensors for b in each),
                                        sum(b.outside for b in each))

    def _say_nothing_named(self) -> None:
        several = sum(text.calls > 1 for text in self._texts.values())
        if several:
            why = (f"no NVTX range encloses exactly one module call, {several} enclose "
                   "several")
        elif self._texts:
            why = "no NVTX range that encloses a module call was closed"
        elif self._agent.ranges_live():
            why = "no NVTX range encloses a module call"
        else:
            why = "the job has opened no NVTX range"
        self._events.say_once("nvtx", f"CKPT_BLOCKS=nvtx: {why}; no block is "
                              "recomputed")

    # -- the report ----------------------------------------------------------

    def entries(self) -> list[dict[str, Any]]:
        """``ranges`` of run.PID.json: those that enclose module calls."""
        return [{"name": name, "calls": text.calls,
                 "block": None if text.block is None else text.block.name,
                 "peak_bytes": text.bytes.tensors,
                 "outside_bytes": text.bytes.outside}
                for name, text in self._texts.items() if text.calls]

    def after_fork(self) -> None:
        """A child's calls are its own."""
        self._around = _Around()
        self._openings.clear()
        self._tried.clear()


def _dotted(module: nn.Module, root: nn.Module) -> str:
    return next((name for name, inner in root.named_modules() if inner is module), "")


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.ModuleDict))
