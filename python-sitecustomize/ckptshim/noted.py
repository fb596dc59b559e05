"""The storages that, while a tape is recorded, nothing but notes holds any more.

A dropped call's note holds the call's inputs for the recompute; a call that is kept
holds what autograd saves and no more. torch counts the holders of a storage: where
they are no more than the aliases in notes, its bytes are there for these alone.
What is found late, or not at all, makes a prediction too high, never too low.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import tensors

if TYPE_CHECKING:
    from .bridge import Agent, Segment, Storage
    from .frame import Frame

_C: Any = torch._C
_count: Any = getattr(_C, "_storage_Use_Count", None)
_Weak: Any = getattr(_C, "_WeakTensorRef", None)
_RECENT = 16        # storages that every forward's beginning looks at

_ref = weakref.ref


def _counts(tensor: torch.Tensor) -> tuple[int, int]:
    """How many hold a tensor's storage, in C++ and its object in Python; what is
    made here to ask is counted.
    """
    with _C.DisableTorchFunction():
        storage = tensor.untyped_storage()
    return _count(storage._cdata), sys.getrefcount(storage)


@functools.cache
def _counts_of_one() -> tuple[int, int]:
    """The same of a storage that one tensor holds."""
    return _counts(torch.empty(1, device="cpu"))


def holders(tensor: torch.Tensor) -> int:
    """How many tensors and others hold a tensor's storage."""
    return 1 + sum(_counts(tensor)) - sum(_counts_of_one())


@functools.cache
def can_count() -> bool:
    """Whether torch counts a storage's holders in the way that is known here."""
    if _count is None or _Weak is None:
        return False
    one = torch.empty(1, device="cpu")
    before = holders(one)
    two = one.detach()
    both = holders(one)
    del two
    return (before, both, holders(one)) == (1, 2, 1)


def _users(tensor: torch.Tensor) -> tuple[int, int]:
    """How many hold a tensor itself, in C++ and in Python."""
    with _C.DisableTorchFunction():
        count = tensor._use_count()             # type: ignore[attr-defined]
    return count, sys.getrefcount(tensor)


@functools.cache
def _users_of_a_base() -> tuple[int, int]:
    """The same of one that nothing but a view of it holds."""
    view = torch.ones(2, device="cpu")[:1]
    base = view._base
    assert base is not None
    return _users(base)


class Held:
    """A storage that notes hold. Segments are indices on the tape."""

    __slots__ = ("aliases", "until", "alone", "seen")

    def __init__(self) -> None:
        self.aliases: list[tuple[int, weakref.ref[torch.Tensor]]] = []   # call's
        self.until: dict[int, int] = {}     # per call: its note had it before
        self.alone: Optional[int] = None    # from where on only notes hold it
        self.seen: Optional[int] = None     # the same, not confirmed yet

    def others(self) -> Optional[int]:
        """How many besides notes hold it; None: no note does any more."""
        aliases = [alias for _, ref in self.aliases if (alias := ref()) is not None]
        return holders(aliases[0]) - len(aliases) if aliases else None


class Given:
    """A tensor of the job's that a call was given."""

    __slots__ = ("ref", "weak", "base", "held")

    def __init__(self, tensor: torch.Tensor,
                 gone: Callable[["Given", Any], None]) -> None:
        self.held: Optional[Held] = None    # its storage, once a note holds it
        self.weak = _Weak(tensor)
        base = tensor._base
        self.base = None if base is None else _ref(base)
        self.ref = _ref(tensor, functools.partial(gone, self))

    def still(self) -> int:
        """How often it holds its storage when its end is told: for itself, and for
        what it is a view of if nothing else holds that.
        """
        base = None if self.base is None else self.base()
        return (not self.weak.expired()) + (base is not None
                                            and _users(base) == _users_of_a_base())


class Noted:
    """Of one tape; to be closed."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._held: dict[int, Held] = {}            # by the tape's storages
        self._open: list[Held] = []                 # others hold them too, so far
        self._given: dict[int, list[Given]] = {}    # by address
        self._forward = False                       # a call was dropped since a B
        self._fault: Optional[BaseException] = None

    # -- what happens ----------------------------------------------------------

    def given(self, args: Any, kwargs: Any) -> None:
        """A call that will be dropped is about to run."""
        with _C.DisableTorchFunction():     # the job's modes would see the reads
            for tensor in tensors.tensors_in((args, kwargs)):
                if type(tensor) in tensors.PLAIN and tensor.grad_fn is not None:
                    known = self._given.setdefault(tensors.address(tensor), [])
                    if all(given.ref() is not tensor for given in known):
                        known.append(Given(tensor, self._let_go))

    def dropped(self, frame: "Frame") -> None:
        """A call is about to be dropped; its note holds aliases of its inputs."""
        assert frame.note is not None
        aliases = frame.note.aliases()
        with _C.DisableTorchFunction():
            addresses = [*map(tensors.address, aliases)]
        for alias, address, storage in zip(aliases, addresses,
                                           self._agent.watch(addresses)):
            if storage >= 0:
                self._hold(frame.call.index, alias, address, storage)
        self._forward = True

    def _hold(self, call: int, alias: torch.Tensor, address: int,
              storage: int) -> None:
        held = self._held.get(storage)
        if held is None:
            held = self._held[storage] = Held()
            self._open.append(held)
        held.until[call] = -1
        gone = functools.partial(self._note_ends, held, call)
        held.aliases.append((call, _ref(alias, gone)))
        for given in self._given.get(address, ()):
            if given.ref() is not None:
                given.held = held

    def _note_ends(self, held: Held, call: int, ref: Any) -> None:
        """An alias is gone."""
        try:
            held.until[call] = self._agent.segment_count()
        except BaseException as error:
            self._fault = error

    def _let_go(self, given: Given, ref: Any) -> None:
        """A tensor of the job's is about to be gone."""
        held = given.held
        try:
            if held is None or held.alone is not None:
                return
            if held.others() == given.still():
                held.seen = self._agent.mark("X")
        except BaseException as error:
            self._fault = error

    def look(self, segment: int, backward: bool) -> None:
        """A forward or a recompute (backward) begins, and with it a segment."""
        self._raise()
        everything = backward and self._forward
        recent = len(self._open) - (0 if backward else _RECENT)
        for place, held in [*enumerate(self._open)]:
            if everything or place >= recent or held.seen is not None:
                self._look_at(held, segment)
        if backward:
            self._forward = False

    def _look_at(self, held: Held, segment: int) -> None:
        others = held.others()
        if others == 0:
            held.alone = segment if held.seen is None else held.seen
        held.seen = None
        if not others:
            self._open.remove(held)

    # -- at the end ------------------------------------------------------------

    def close(self) -> None:
        """The tape has ended."""
        for held in self._held.values():
            for call, ref in held.aliases:
                if ref() is not None:
                    held.until[call] = -1
            held.aliases.clear()
        self._given.clear()
        self._raise()

    def _raise(self) -> None:
        """Pass on what was raised where Python would have dropped it."""
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def entries(self, dropped: set[int], saved: set[int], segments: list["Segment"],
                storages: list["Storage"]) -> list[dict[str, Any]]:
        """The profile's "noted".

        dropped: calls; saved: storages that some call saved, and holds if kept.
        """
        found = []
        for storage, held in sorted(self._held.items()):
            if held.alone is None or storage in saved or not dropped >= {*held.until}:
                continue        # what a call saved, that call may hold to its end
            end = len(segments)
            until = [end if held.until[call] < 0 else held.until[call]
                     for call in sorted(held.until)]
            freed = storages[storage].freed
            # What is freed between an E and its D opens no segment of its own.
            to = (end if freed < 0 else freed if chr(segments[freed].mark) == "E"
                  else freed + 1)
            to = min(to, max(until))
            if 0 <= held.alone < to:
                found.append({"bytes": storages[storage].bytes, "from": held.alone,
                              "to": to, "calls": sorted(held.until), "until": until})
        return found
