"""Originals on a CUDA device that wait for their proof in pinned host memory.

Copies are queued on the current stream; the caching allocator reuses the
device's memory in the order of that stream, so nothing waits.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from . import tensors


class HostTensor:
    """One tensor whose storage is in host memory."""

    __slots__ = ("storage", "_layout")

    def __init__(self, storage: "_Host", tensor: torch.Tensor) -> None:
        self.storage = storage
        self._layout = tensors.Layout(tensor)

    def look(self, last: dict[Any, torch.Tensor]) -> torch.Tensor:
        """The tensor, for a comparison.

        last: the storage looked at before, and what is in it.
        """
        if self.storage not in last:
            last.clear()
        return self.restore(last)

    def restore(self, storages: dict[Any, torch.Tensor]) -> torch.Tensor:
        """The tensor on its device; storages is shared between calls."""
        host = self.storage
        flat = storages.get(host)
        if flat is None:
            flat = storages[host] = host.data.to(host.device, non_blocking=True)
        return self._layout.on(flat.untyped_storage())


class _Host:
    """One storage's bytes."""

    __slots__ = ("data", "device", "size", "_spill")

    def __init__(self, spill: "HostSpill", tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.device = tensor.device
        self.size = storage.nbytes()
        self._spill = spill
        with torch.no_grad():
            view = torch.empty(0, dtype=torch.uint8, device=self.device)
            view.set_(storage, 0, (self.size,), (1,))
            self.data = torch.empty(self.size, dtype=torch.uint8, pin_memory=True)
            self.data.copy_(view, non_blocking=True)
        spill.used += self.size

    def __del__(self) -> None:
        self._spill.used -= self.size


class HostSpill:
    """Bounded: at most ``limit`` bytes at any time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def write(self, originals: Sequence[torch.Tensor]) -> Optional[list[HostTensor]]:
        """Copy the storages of tensors to the host; None: keep them."""
        needed = sum(tensors.storages(originals).values())
        if not originals or self.used + needed > self._limit:
            return None
        hosts: dict[int, _Host] = {}
        try:
            for tensor in originals:
                where = tensors.address(tensor)
                if where not in hosts:
                    hosts[where] = _Host(self, tensor)
        except RuntimeError:            # no host memory can be pinned
            return None
        return [HostTensor(hosts[tensors.address(t)], t) for t in originals]
