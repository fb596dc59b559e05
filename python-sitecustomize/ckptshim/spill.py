"""Originals that wait for their proof in a file instead of tensor memory.

The file is unlinked as soon as it is open, so that nothing is left behind
however the process ends. Whatever goes wrong (folder missing, full, a memory
file system), the answer is "keep": nothing is spilled and nothing is lost.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Optional, Sequence

import torch

from . import files, tensors

_MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"}
_CHUNK = 1 << 26
_PIECE = 1 << 17            # bytes that the inner caches hold


class SpilledStorage:
    """Bytes of one storage in the file."""

    __slots__ = ("spill", "offset", "size", "__weakref__")

    def __init__(self, spill: "Spill", offset: int, size: int) -> None:
        self.spill = spill
        self.offset = offset
        self.size = size

    def has(self, start: int, address: int, size: int) -> bool:
        """Whether its bytes from start on are those in memory."""
        return self.spill.same(self.offset + start, address, size)

    def __del__(self) -> None:
        try:
            self.spill.forget(self)
        except Exception:       # its place is lost to the file
            pass


class SpilledTensor:
    """One tensor on a spilled storage."""

    __slots__ = ("storage", "layout")

    def __init__(self, storage: SpilledStorage, tensor: torch.Tensor) -> None:
        self.storage = storage
        self.layout = tensors.Layout(tensor)

    def look(self, last: dict[Any, torch.Tensor]) -> torch.Tensor:
        """The tensor on memory that torch's allocator does not count.

        last: the storage looked at before, and what is in it.
        """
        flat = last.get(self.storage)
        if flat is None:
            last.clear()
            data = bytearray(self.storage.size)
            self.storage.spill.read(self.storage, memoryview(data))
            flat = last[self.storage] = torch.frombuffer(data, dtype=torch.uint8)
        return self.layout.on(flat.untyped_storage())

    def restore(self, storages: dict[Any, torch.Tensor]) -> torch.Tensor:
        """The tensor in tensor memory; storages is shared between calls."""
        flat = storages.get(self.storage)
        if flat is None:
            flat = torch.empty(self.storage.size, dtype=torch.uint8)
            view = (ctypes.c_char * self.storage.size).from_address(flat.data_ptr())
            self.storage.spill.read(self.storage, memoryview(view).cast("B"))
            storages[self.storage] = flat
        return self.layout.on(flat.untyped_storage())


def file_system(path: str) -> str:
    """The type of the file system that holds path, from the mount table."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
        for line in table:
            fields = line.split()
            if fields[2] == wanted and "-" in fields:
                return fields[fields.index("-") + 1]
    return "unknown"


class Spill:
    """A bounded file of its own for one process.

    Args:
        folder: where to make it (CKPT_SPILL).
        limit: most bytes in it at any time.
        complain: called once with a line when spilling turns out impossible.
    """

    def __init__(self, folder: str, limit: int,
                 complain: Callable[[str], None]) -> None:
        self._folder = folder
        self.limit = limit
        self._complain = complain
        self._file: Optional[int] = None
        self._pid = os.getpid()
        self._broken = False
        self._used = 0
        self._free: list[tuple[int, int]] = []
        self._end = 0
        self.written = 0
        self._piece = (ctypes.c_char * _PIECE)()

    def write(self, originals: Sequence[torch.Tensor]) -> Optional[list[SpilledTensor]]:
        """Copy the storages of tensors to the file; None: keep them."""
        if not originals or not self._open() or not self._room_for(originals):
            return None
        storages: dict[int, SpilledStorage] = {}
        try:
            for tensor in originals:
                where = tensors.address(tensor)
                if where not in storages:
                    size = tensor.untyped_storage().nbytes()
                    storages[where] = self._put(where, size)
        except OSError as error:
            self._give_up(str(error))
            return None
        return [SpilledTensor(storages[tensors.address(t)], t) for t in originals]

    def read(self, storage: SpilledStorage, into: memoryview) -> None:
        """Fill a buffer with a storage's bytes."""
        done = 0
        while done < storage.size:
            got = os.preadv(self._file or 0, [into[done:done + _CHUNK]],
                            storage.offset + done)
            if got <= 0:
                raise OSError(f"the spill in {self._folder} has lost its bytes")
            done += got

    def same(self, offset: int, address: int, size: int) -> bool:
        """Whether bytes of the file are those in memory; piece by piece, so that
        none leaves the caches in between.
        """
        piece = self._piece
        for done in range(0, size, _PIECE):
            count = min(_PIECE, size - done)
            got = os.preadv(self._file or 0, [memoryview(piece)[:count]],
                            offset + done)
            if got != count or tensors.compare(ctypes.addressof(piece), address + done,
                                               count):
                return False
        return True

    def forget(self, storage: SpilledStorage) -> None:
        """A storage's bytes are not needed any more."""
        self._used -= storage.size
        self._free.append((storage.offset, storage.size))
        if self._used == 0:
            self._free.clear()
            self._end = 0
            if self._file is not None and os.getpid() == self._pid:
                os.ftruncate(self._file, 0)

    def _room_for(self, originals: Sequence[torch.Tensor]) -> bool:
        return self._used + sum(tensors.storages(originals).values()) <= self.limit

    def _put(self, address: int, size: int) -> SpilledStorage:
        offset = self._place(size)
        storage = SpilledStorage(self, offset, size)
        self._used += size
        data = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        done = 0
        while done < size:
            done += os.pwrite(self._file or 0, data[done:done + _CHUNK], offset + done)
        self.written += size
        return storage

    def _place(self, size: int) -> int:
        for index, (offset, room) in enumerate(self._free):
            if room >= size:
                if room == size:
                    del self._free[index]
                else:
                    self._free[index] = (offset + size, room - size)
                return offset
        self._end += size
        return self._end - size

    def _open(self) -> bool:
        if self._broken or os.getpid() != self._pid:
            return False
        if self._file is None:
            try:
                kind = file_system(self._folder)
                if kind in _MEMORY_FILE_SYSTEMS:
                    raise OSError(f"it is on a memory file system ({kind})")
                self._file, path = files.temporary(self._folder, "ckptagent-")
                os.unlink(path)
            except OSError as error:
                self._give_up(str(error))
                return False
        return True

    def _give_up(self, why: str) -> None:
        self._broken = True
        self._complain(f"nothing is spilled to {self._folder}: {why}")
