"""Whether a recompute gives what the forward gave.

The first time it is compared with the originals, which are held until then
(short of memory, in a file: ``spill``); after that, with their digests.
"""

from __future__ import annotations

import time
from typing import Any, Optional

import torch

from . import tensors
from .frame import PROVE, Frame, Handle, form
from .recompute import recompute
from .spill import Spill
from .sums import Digester, Sum
from .watcher import Watcher


class Proofs:
    """Compares, and moves held originals out of the way and back."""

    def __init__(self, watcher: Watcher, digester: Digester,
                 spill: Optional[Spill]) -> None:
        self._watcher = watcher
        self._digester = digester
        self._spill = spill

    def prove(self, frame: Frame) -> None:
        """Recompute all and compare; the frame is settled then."""
        last = len(frame.handles) - 1
        originals = frame.alive()
        self._watcher.recompute_begins(frame)
        begin = time.perf_counter()
        reason, detail = None, ""
        values: list[torch.Tensor] = []
        try:
            values = recompute(frame, last, self._digester, {})
        except Exception as error:
            reason, detail = "recompute_raises", f"{type(error).__name__}: {error}"
        frame.call.recompute_ms = 1e3 * (time.perf_counter() - begin)
        frame.call.recomputes += 1
        if reason is None:
            detail = _compare(frame, originals, values)
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
        frame.settle()
        self._watcher.proven(frame, reason, detail)

    def differences(self, frame: Frame, indices: list[int],
                    values: list[torch.Tensor], count: int,
                    known: dict[int, Optional[Sum]]) -> str:
        """What is wrong with a dropped frame's values of indices, or "".

        count: how many tensors the recompute saved; known: digests found so far.
        """
        if len(values) < len(indices):
            return (f"{count} tensors were saved by the recompute, "
                    f"{len(frame.handles)} by the forward")
        if frame.digests is None:
            changed = frame.note.changed_versions() if frame.note else []
            return "an input or a parameter was written to since" if changed else ""
        then = frame.digests.of(indices)
        if tensors.forms(values) != then.forms:
            for index, value, *then_form in zip(indices, values, *then.forms):
                if [value.dtype, value.shape] != then_form:
                    return f"saved tensor {index} has another form ({form(value)})"
        sums = self._digester.all(values, [known.get(i) for i in indices], then.stride)
        if sums != then.sums:
            for index, value, now, sum_ in zip(indices, values, sums, then.sums):
                if now != sum_:
                    return f"saved tensor {index} ({form(value)}) has other bits"
        return ""

    def spill(self, frame: Frame) -> int:
        """Move a held frame's originals to the spill; the bytes given back."""
        if self._spill is None or frame.state != PROVE:
            return 0
        held = frame.own()
        moved = self._spill.write([h.tensor for h in held if h.tensor is not None])
        if moved is None:
            return 0
        for handle, spilled in zip(held, moved):
            frame.spilled[handle.index], handle.tensor = spilled, None
        return sum({s.storage: s.storage.size for s in moved}.values())

    def restore(self, frame: Frame) -> None:
        """Bring spilled originals back into tensor memory."""
        restored: dict[Any, torch.Tensor] = {}
        for handle in frame.alive():
            spilled = frame.spilled.pop(handle.index, None)
            if spilled is not None:
                handle.tensor = spilled.restore(restored)
                handle.version = handle.tensor._version
        frame.spilled.clear()


def _replaceable(frame: Frame, handle: Handle) -> bool:
    if handle.index in frame.spilled:
        return True
    tensor = handle.tensor
    return (tensor is not None and tensors.droppable(tensor)
            and tensors.address(tensor) not in frame.outside)


def _compare(frame: Frame, originals: list[Handle],
             values: list[torch.Tensor]) -> str:
    """What differs between originals and recomputed values, or ""."""
    if len(values) != len(frame.handles):
        return (f"{len(values)} tensors were saved by the recompute, "
                f"{len(frame.handles)} by the forward")
    for handle in originals:
        original = handle.tensor
        if handle.index in frame.spilled:
            original = frame.spilled[handle.index].look()
        value = values[handle.index]
        if original is None or not tensors.droppable(original):
            continue
        if not tensors.same_form(original, value):
            return f"saved tensor {handle.index} has another form ({form(value)})"
        same = tensors.address(original) == tensors.address(value)
        if not same and not tensors.same_bits(original, value):
            return f"saved tensor {handle.index} ({form(value)}) has other bits"
    return ""
