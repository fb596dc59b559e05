"""Digests of saved tensors: what tells a recompute from its forward.

Small tensors are digested together when the forward is over, by the agent. A
large one is read the moment autograd saves it, while it is in the caches. Where
that would take long, it is read with all of torch's threads: each line of 512
bytes becomes the sum of its words of 64 bits, and the sums are digested. Sums of
integers are exact, so any number of threads finds the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import tensors

if TYPE_CHECKING:
    from .bridge import Agent

LARGE = 1 << 16             # bytes
_SHARED = 1 << 22           # bytes that are worth all threads
_WORDS = 64                 # to a line
_LINE = 8 * _WORDS
_CHUNK = 1 << 26            # bytes of a tensor that are read at once

_C: Any = torch._C
_function_modes: Callable[[], int] = _C._len_torch_function_stack
_dispatch_modes: Callable[[], int] = _C._len_torch_dispatch_stack
_sum: Any = torch.sum
_INTEGERS = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))

# One tensor's digest: equal bits in an equal form give equal values.
Sum = Any


class Digests:
    """What is remembered of dropped tensors: their forms and digests.

    Attributes:
        indices: of the saved tensors.
        sums: None for those on a CUDA device.
        device: digests of the latter, rows: the place of each among them.
        stride: 0 if every byte was read, else of the probe.
    """

    __slots__ = ("indices", "forms", "sums", "stride", "device", "rows")

    def __init__(self, indices: list[int], forms: tensors.Forms, sums: list[Sum],
                 stride: int, device: Optional["OnDevice"], rows: list[int]) -> None:
        self.indices = indices
        self.forms = forms
        self.sums = sums
        self.stride = stride
        self.device = device
        self.rows = rows

    def of(self, indices: list[int]) -> "Digests":
        """Only those of tensors with these indices."""
        if indices == self.indices:
            return self
        places = [*map(self.indices.index, indices)]
        dtypes, shapes = self.forms
        forms = [dtypes[i] for i in places], [shapes[i] for i in places]
        sums = [self.sums[i] for i in places]
        rows: list[int] = []
        if self.device is not None:
            on_device = [i for i, sum_ in enumerate(self.sums) if sum_ is None]
            rows = [self.rows[on_device.index(i)] for i in places if i in on_device]
        return Digests(indices, forms, sums, self.stride, self.device, rows)


def identity(tensor: torch.Tensor) -> Any:
    """Equal for tensors of the same elements, while one of them is alive."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor._version


class _Rooms:
    """Where sums of lines go: memory that no allocator counts.

    Not thread-local: a tensor on Python's memory must not be among what is left
    when a thread of C's ends, since it asks for the interpreter's lock once more.
    """

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []

    def take(self, words: int) -> torch.Tensor:
        """A tensor of at least so many words, for one thread."""
        try:
            room = self._free.pop()
        except IndexError:
            room = torch.empty(0, dtype=torch.int64)
        if room.numel() < words:
            room = torch.frombuffer(bytearray(8 * words), dtype=torch.int64)
        return room

    def give_back(self, room: torch.Tensor) -> None:
        """It may be taken again."""
        self._free.append(room)


class OnDevice:
    """Digests on a CUDA device, where comparing them does not wait for it.

    The 64-bit sum of each tensor's words.
    """

    def __init__(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            self._sums = torch.stack([_device_sum(t).to(values[0].device)
                                      for t in values])

    def differs(self, then: "OnDevice", rows: list[int]) -> torch.Tensor:
        """Which differ from those rows of then; on the device."""
        with torch.no_grad():
            before = then._sums.to(self._sums.device)
            if len(rows) < before.numel():
                before = torch.stack([before[row] for row in rows])
            return self._sums != before


def _device_sum(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensors.raw_view(tensor)
    if tensors.dense_range(tensor) is not None:
        tensor = tensor.as_strided((tensor.numel(),), (1,))
    rows = _words(tensor)
    if rows is None:
        rows = tensor.contiguous().reshape(-1).view(torch.uint8)
    made: torch.Tensor = _sum(rows, dtype=torch.int64)
    return made


def _words(tensor: torch.Tensor) -> Optional[torch.Tensor]:
    """The tensor as integers, as large ones as its form allows, the dimension whose
    elements lie together last; None: there is no such dimension.
    """
    last = next((d for d in range(tensor.dim() - 1, -1, -1)
                 if tensor.stride(d) == 1 and tensor.size(d) > 1), None)
    if last is None:
        return None
    rows = tensor.movedim(last, -1)
    itemsize = tensor.element_size()
    steps = [itemsize * s for s in (rows.size(-1), rows.storage_offset(),
                                    *rows.stride()[:-1])]
    for size, integer in _INTEGERS:
        if not any(step % size for step in steps) and (
                size >= itemsize or size == 8):
            return rows.view(integer)
    return None


class Seen:
    """Digests large tensors as a recompute saves them, those of some indices.

    Attributes:
        sums: what is known by index.
    """

    def __init__(self, digester: "Digester", indices: list[int]) -> None:
        self.sums: dict[int, Optional[Sum]] = dict.fromkeys(indices)
        self._large = digester.large
        self._known: dict[Any, Optional[Sum]] = {}

    def __call__(self, index: int, tensor: torch.Tensor) -> None:
        if index in self.sums:
            key = identity(tensor)
            if key not in self._known:
                self._known[key] = self._large(tensor)
            self.sums[index] = self._known[key]


class Digester:
    """Makes the digests. Any thread."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._rooms = _Rooms()

    def large(self, tensor: torch.Tensor) -> Optional[Sum]:
        """The digest of a tensor of at least LARGE bytes, now; None: see ``all``."""
        if (_function_modes() or _dispatch_modes() or not tensor.is_cpu
                or not tensors.droppable(tensor)):
            return None
        if tensor.nbytes < _SHARED:
            return self._together([tensor], 0)[0]
        with torch.no_grad():
            tensor = tensors.raw_view(tensor)
            if tensors.dense_range(tensor) is not None:
                return self._dense(tensor)
            return self._strided(tensor)

    def digests(self, indices: list[int], values: list[torch.Tensor],
                known: list[Optional[Sum]], stride: int) -> Digests:
        """All there is to remember of tensors that are about to be dropped."""
        on_device = [value for value in values if value.is_cuda]
        return Digests(indices, tensors.forms(values), self.all(values, known, stride),
                       stride, OnDevice(on_device) if on_device else None,
                       [*range(len(on_device))])

    def all(self, values: list[torch.Tensor], known: list[Optional[Sum]],
            stride: int) -> list[Sum]:
        """The digests of all tensors, of which some are known already; None for
        those on a CUDA device.
        """
        missing = [i for i, sum_ in enumerate(known)
                   if sum_ is None and not values[i].is_cuda]
        found = self._together([values[i] for i in missing], stride)
        if len(found) == len(known):
            return found
        sums = [*known]
        for i, sum_ in zip(missing, found):
            sums[i] = sum_
        return sums

    def _together(self, values: list[torch.Tensor], stride: int) -> list[Sum]:
        ranges = tensors.dense_ranges(values)
        unique: dict[Any, None] = dict.fromkeys(ranges)
        unique.pop(None, None)          # those are digested one by one
        found = self._agent.digests([start for start, _ in unique],
                                    [size for _, size in unique],
                                    stride) if unique else []
        if len(found) == len(values):
            return found
        sums = dict(zip(unique, found))
        return [sums[r] if r is not None else self._agent.digest_strided(
                    t.data_ptr(), t.element_size(), t.shape, t.stride())
                for r, t in zip(ranges, values)]

    def _dense(self, tensor: torch.Tensor) -> Optional[Sum]:
        """In the order of memory."""
        start, size = tensor.data_ptr(), tensor.nbytes
        itemsize = tensor.element_size()
        if start % 8 or (tensor.storage_offset() * itemsize) % 8:
            return None
        whole = size - size % _LINE
        flat = tensor.as_strided((whole // itemsize,), (1,)).view(torch.int64)
        sums = [self._lines(part.view(-1, _WORDS))
                for part in torch.split(flat, _CHUNK // 8)]
        if whole < size:
            sums += self._agent.digests([start + whole], [size - whole])
        return sums

    def _strided(self, tensor: torch.Tensor) -> Optional[Sum]:
        """Row by row along the dimension whose elements lie together."""
        rows = _words(tensor) if tensor.nbytes <= _CHUNK else None
        return None if rows is None else self._lines(rows)

    def _lines(self, rows: torch.Tensor) -> int:
        """The digest of the sums along the last dimension."""
        shape = rows.shape[:-1]
        room = self._rooms.take(shape.numel())
        sums = room[:shape.numel()]
        _sum(rows, -1, dtype=torch.int64, out=sums.view(shape))
        digest = self._agent.digests([sums.data_ptr()], [sums.nbytes])[0]
        self._rooms.give_back(room)
        return digest
