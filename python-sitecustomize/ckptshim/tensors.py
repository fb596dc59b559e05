"""Tensors in structures, their storages, and their bits."""

from __future__ import annotations

import ctypes
import dataclasses
import operator
from typing import Any, Iterable, Iterator, Optional

import torch

PLAIN = (torch.Tensor, torch.nn.Parameter)
_DEPTH = 8

# Steps that run over many tensors without bytecode for each.
_base = torch._C.TensorBase
storage_of = _base.untyped_storage
pointer_of = _base.data_ptr
_data_ptr = torch.UntypedStorage.data_ptr
_nbytes = operator.attrgetter("nbytes")
_shape = operator.attrgetter("shape")
_dtype = operator.attrgetter("dtype")


def tensors_in(value: Any, depth: int = _DEPTH) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, tuples, mappings, sets and records."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth == 0 or value is None or isinstance(value, (int, float, str, bool)):
        return
    for item in _items(value):
        yield from tensors_in(item, depth - 1)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, f.name, None) for f in dataclasses.fields(value)]
    if isinstance(value, torch.nn.Module) or isinstance(value, type):
        return ()
    return list(getattr(value, "__dict__", {}).values())


def address(tensor: torch.Tensor) -> int:
    """Where a tensor's storage starts; 0 for one that has none to speak of."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def starts(found: Iterable[torch.UntypedStorage]) -> set[int]:
    """Where storages start."""
    return {*map(_data_ptr, found)}


def addresses(tensors: Iterable[torch.Tensor]) -> set[int]:
    """The storages of tensors."""
    tensors = [*tensors]
    try:
        return starts(map(storage_of, tensors))
    except (RuntimeError, NotImplementedError):
        return {*map(address, tensors)}


def droppable(tensor: torch.Tensor) -> bool:
    """Whether a saved tensor is plain enough to be thrown away and compared.

    Subclasses, sparse, quantized and nested tensors are held instead.
    """
    return (type(tensor) in PLAIN and tensor.layout is torch.strided
            and not tensor.is_quantized and not tensor.is_nested)


Forms = tuple[list[torch.dtype], list[torch.Size]]


def forms(tensors: list[torch.Tensor]) -> Forms:
    """Their dtypes and their shapes."""
    return [*map(_dtype, tensors)], [*map(_shape, tensors)]


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of its elements; 0 for one that is not strided."""
    return tensor.nbytes if tensor.layout is torch.strided else 0


def size(tensors: list[torch.Tensor]) -> int:
    """Bytes of all their elements."""
    return sum(map(_nbytes, tensors))


def dense_ranges(tensors: list[torch.Tensor]) -> list[Optional[tuple[int, int]]]:
    """``dense_range`` of each."""
    if all(map(_base.is_contiguous, tensors)):
        return [*zip(map(_base.data_ptr, tensors), map(_nbytes, tensors))]
    return [*map(dense_range, tensors)]


def dense_range(tensor: torch.Tensor) -> Optional[tuple[int, int]]:
    """Address and bytes of a tensor that fills its range of memory exactly.

    None when its elements overlap or leave gaps.
    """
    if tensor.is_contiguous():
        return tensor.data_ptr(), tensor.nbytes
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return None
        expected *= size
    return tensor.data_ptr(), tensor.nbytes


class Layout:
    """How a tensor lies on its storage, and one like it on another."""

    __slots__ = ("dtype", "shape", "stride", "offset", "conj", "neg")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        self.conj = tensor.is_conj()
        self.neg = tensor.is_neg()

    def same(self, tensor: torch.Tensor) -> bool:
        """Whether a plain tensor lies on its storage as the other did."""
        return (droppable(tensor) and tensor.dtype == self.dtype
                and tensor.shape == self.shape and tensor.stride() == self.stride
                and tensor.storage_offset() == self.offset
                and tensor.is_conj() == self.conj and tensor.is_neg() == self.neg)

    def on(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """A tensor that lies on storage, on its device, as the other did."""
        with torch.no_grad():
            tensor = torch.empty(0, dtype=self.dtype, device=storage.device)
            tensor.set_(storage, self.offset, self.shape, self.stride)
            if self.conj:
                tensor = torch._conj(tensor)
            if self.neg:
                tensor = torch._neg_view(tensor)
        return tensor


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """Where on its storage a tensor's bytes begin and how many they are; of one with
    gaps or overlaps, all of the storage.
    """
    if dense_range(tensor) is None:
        return 0, tensor.untyped_storage().nbytes()
    return int(tensor.storage_offset()) * tensor.element_size(), tensor.nbytes


def storages(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """The storages of tensors: address and bytes."""
    return {address(t): t.untyped_storage().nbytes() for t in tensors}


def raw_view(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without the lazy conjugate and negative bits."""
    if tensor.is_neg():
        tensor = torch._neg_view(tensor)
    return torch._conj(tensor) if tensor.is_conj() else tensor


def same_form(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether dtype, device, shape, strides and lazy bits of plain tensors agree."""
    return (droppable(a) and droppable(b) and a.dtype == b.dtype
            and a.device == b.device and a.shape == b.shape
            and a.stride() == b.stride()
            and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg())


compare = ctypes.CDLL(None).memcmp
compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of the same form hold the same bits (NaN included)."""
    a, b = raw_view(a.detach()), raw_view(b.detach())
    one, other = dense_range(a), dense_range(b)
    if one is not None and other is not None and a.device.type == "cpu":
        return not compare(one[0], other[0], one[1])
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    word = _WORDS[a.element_size()]
    return torch.equal(a.view(word), b.view(word))
