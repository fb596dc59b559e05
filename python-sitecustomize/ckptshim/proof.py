"""Whether a recompute gives what the forward gave.

The first time it is compared with the originals, which are held until then
(short of memory, in a file: ``spill``); after that, with their digests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch

from . import interrupts, tensors
from .clock import Clock
from .diagnose import Difference, explain, may_be_workspace, workspaces
from .frame import PROVE, Frame, Handle, form, named
from .host_spill import HostSpill
from .recompute import recompute
from .spill import Spill
from .sums import Digester, Digests, OnDevice, Sum
from .watcher import Watcher

if TYPE_CHECKING:
    from .blocks import Call


class Unread(NamedTuple):
    """What a recompute on a CUDA device turns out to be."""

    call: "Call"
    names: list[str]
    differs: torch.Tensor


class Proofs:
    """Compares, and moves held originals out of the way and back."""

    def __init__(self, watcher: Watcher, digester: Digester, clock: Clock,
                 spill: Optional[Spill]) -> None:
        self._watcher = watcher
        self._digester = digester
        self._clock = clock
        self._spill = spill
        self._host = HostSpill(spill.limit if spill else 0)
        self.unread: list[Unread] = []
        self.unreal = False             # a phantom device: no value is real

    def prove(self, frame: Frame) -> None:
        """Recompute all and compare; the frame is settled then."""
        last = len(frame.handles) - 1
        originals = frame.alive()
        self._watcher.recompute_begins(frame)
        begin = self._clock.start()
        reason, detail = None, Difference()
        values: list[torch.Tensor] = []
        comparison = _Comparison(frame, originals)
        try:
            values = recompute(frame, last, comparison.see)
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise
            reason = "recompute_raises"
            detail = Difference(f"{type(error).__name__}: {error}")
        self._clock.stop(begin, frame.call, "recompute_ms")
        frame.call.recomputes += 1
        if reason is None:
            detail = Difference() if self.unreal else comparison.end(values)
            reason = "recompute_differs" if detail else None
        if reason is None:
            for handle in originals:
                if _replaceable(frame, handle):
                    handle.tensor = value = values[handle.index]
                    handle.version = value._version
            frame.spilled.clear()
        else:
            self.restore(frame)
        self._watcher.recompute_ends(frame)
        why = explain(frame, detail, [*range(len(values))], values)
        frame.settle()
        self._watcher.proven(frame, reason, why)

    def differences(self, frame: Frame, indices: list[int],
                    values: list[torch.Tensor], count: int,
                    known: dict[int, Optional[Sum]]) -> Difference:
        """What is wrong with a dropped frame's values of indices.

        count: how many tensors the recompute saved; known: digests found so far.
        """
        if len(values) < len(indices):
            return _counts(count, frame)
        if frame.digests is None:
            changed = frame.note.changed_versions() if frame.note else []
            return Difference("an input or a parameter was written to since"
                              if changed else "")
        then = frame.digests.of(indices)
        if tensors.forms(values) != then.forms:
            for index, value, dtype, shape in zip(indices, values, *then.forms):
                if (value.dtype, value.shape) != (dtype, shape):
                    return _other_form(index, named(dtype, shape), value)
        sums = self._digester.all(values, [known.get(i) for i in indices], then.stride)
        if then.device is not None:
            self._remember(frame, indices, values, then)
        if sums != then.sums:
            for index, value, now, sum_ in zip(indices, values, sums, then.sums):
                if now != sum_ and not _is_spare(frame, index, value):
                    return _other_bits(index, value)
        return Difference()

    def _remember(self, frame: Frame, indices: list[int],
                  values: list[torch.Tensor], then: Digests) -> None:
        """What a CUDA device will have found; to be read before the step."""
        assert then.device is not None
        there = [(i, v) for i, v in zip(indices, values) if v.is_cuda]
        names = [f"saved tensor {i} ({form(v)}) has other bits" for i, v in there]
        differs = OnDevice([v for _, v in there]).differs(then.device, then.rows)
        self.unread.append(Unread(frame.call, names, differs))

    def read(self) -> None:
        """Read what the device has found; waits for it once."""
        unread, self.unread = self.unread, []
        if not unread or self.unreal:
            return
        with torch.no_grad():
            flags = torch.cat([u.differs.to(unread[0].differs.device)
                               for u in unread]).tolist()
        for call, names, _ in unread:
            found, flags = flags[:len(names)], flags[len(names):]
            for name, differs in zip(names, found):
                if differs:
                    self._watcher.mismatch(call, name)
                    break

    def spill(self, frame: Frame) -> int:
        """Move a held frame's originals to the spill; the bytes given back."""
        if self._spill is None or frame.state != PROVE:
            return 0
        held = [h for h in frame.own() if h.tensor is not None]
        there = [h for h in held if h.tensor is not None and h.tensor.is_cuda]
        if there:                       # what else is on the CPU is little
            return _move(frame, there, self._host)
        return _move(frame, held, self._spill)

    def restore(self, frame: Frame) -> None:
        """Bring spilled originals back into tensor memory."""
        restored: dict[Any, torch.Tensor] = {}
        for handle in frame.alive():
            spilled = frame.spilled.pop(handle.index, None)
            if spilled is not None:
                handle.tensor = spilled.restore(restored)
                handle.version = handle.tensor._version
        frame.spilled.clear()


def _move(frame: Frame, held: list[Handle], spill: Any) -> int:
    """Write the tensors of handles to a spill; the bytes given back."""
    moved = spill.write([h.tensor for h in held])
    if moved is None:
        return 0
    for handle, spilled in zip(held, moved):
        frame.spilled[handle.index], handle.tensor = spilled, None
    return sum({s.storage: s.storage.size for s in moved}.values())


def _replaceable(frame: Frame, handle: Handle) -> bool:
    if handle.index in frame.spilled:
        return True
    tensor = handle.tensor
    return (tensor is not None and tensors.droppable(tensor)
            and tensors.address(tensor) not in frame.outside)


def _is_spare(frame: Frame, index: int, value: torch.Tensor) -> bool:
    """Whether a recomputed tensor may have other bits: it is a workspace."""
    if not may_be_workspace(value):
        return False
    scope = frame.call.block.scope
    if index not in scope.workspaces:
        scope.workspaces |= workspaces(frame, index)
    return index in scope.workspaces


class _Memory(NamedTuple):
    """A storage in tensor memory; ``spill.SpilledStorage`` is one in a file."""

    address: int
    size: int

    def has(self, start: int, address: int, size: int) -> bool:
        """Whether its bytes from start on are those in memory."""
        return not tensors.compare(self.address + start, address, size)


class _Resident:
    """An original in tensor memory; ``spill.SpilledTensor`` is one in a file."""

    __slots__ = ("storage", "layout")

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.storage = _Memory(storage.data_ptr(), storage.nbytes())
        self.layout = tensors.Layout(tensor)


_MUCH = 4       # times the size of a tensor with gaps: too much to compare with it


class _Comparison:
    """Of a frame's originals with their recomputed values, the large ones as soon
    as they are there: they are in the caches then.
    """

    def __init__(self, frame: Frame, originals: list[Handle]) -> None:
        self._frame = frame
        self._originals = {handle.index: handle for handle in originals}
        self._agreed: dict[int, int] = {}       # the version of what agreed
        self._known: dict[Any, bool] = {}       # whether two storages agree

    def see(self, index: int, value: torch.Tensor) -> None:
        """A value was recomputed. What fails here is compared at the end."""
        handle = self._originals.get(index)
        try:
            if handle is not None and value.is_cpu and self._agrees(handle, value):
                self._agreed[index] = value._version
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise

    def _agrees(self, handle: Handle, value: torch.Tensor) -> bool:
        """Whether it lies on a storage like the original's that has the same bytes
        there. It may be the same if not: the end tells.
        """
        held: Any = self._frame.spilled.get(handle.index)
        if held is None:
            if handle.tensor is None or not tensors.droppable(handle.tensor):
                return False
            held = _Resident(handle.tensor)
        storage = value.untyped_storage()
        if not held.layout.same(value) or held.storage.size != storage.nbytes():
            return False
        start, size = tensors.span(value)
        place = held.storage, storage.data_ptr(), start, value._version
        if place not in self._known:
            self._known[place] = (size < _MUCH * value.nbytes and
                                  held.storage.has(start, place[1] + start, size))
        return self._known[place]

    def end(self, values: list[torch.Tensor]) -> Difference:
        """What differs between the originals and all values, but for spare ones."""
        frame = self._frame
        if len(values) != len(frame.handles):
            return _counts(len(values), frame)
        looked: dict[Any, torch.Tensor] = {}
        for index, handle in self._originals.items():
            original, value = handle.tensor, values[index]
            if self._agreed.get(index) == value._version:
                continue
            if index in frame.spilled:
                original = frame.spilled[index].look(looked)
            if original is None or not tensors.droppable(original):
                continue
            if not tensors.same_form(original, value):
                return _other_form(index, form(original), value)
            same = tensors.address(original) == tensors.address(value)
            if not (same or tensors.same_bits(original, value)
                    or _is_spare(frame, index, value)):
                return _other_bits(index, value)
        return Difference()


def _counts(count: int, frame: Frame) -> Difference:
    return Difference(f"{count} tensors were saved by the recompute, "
                      f"{len(frame.handles)} by the forward")


def _other_form(index: int, before: str, value: torch.Tensor) -> Difference:
    return Difference(f"saved tensor {index} has another form, {form(value)}, "
                      f"it was {before}", index)


def _other_bits(index: int, value: torch.Tensor) -> Difference:
    return Difference(f"saved tensor {index} ({form(value)}) has other bits", index)
