"""Whether a value is still what it was: contents of tensors and arrays."""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import torch

from . import structures

_BUDGET = 256 << 20         # bytes a look reads in full
_SPARSE = 1 << 10           # beyond, a line of 64 bytes in so many
_ARRAY = 8 << 20            # bytes of an array; of larger ones a part is read


def _copied(address: int, size: int, stride: int) -> Any:
    return ctypes.string_at(address, size)


# What stands for the contents of memory (address, bytes, stride; 0: all of it). The
# session has the agent digest them; without an agent they are copied.
of_memory: Callable[[int, int, int], Any] = _copied


class Budget:
    """The bytes that one look may still read in full."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _BUDGET

    def stride(self, size: int) -> int:
        """0 to read all of size bytes, more to skip some."""
        self.left -= size
        return 0 if self.left >= 0 else _SPARSE


def _readable(tensor: torch.Tensor) -> int:
    """Bytes of a tensor whose contents can be read cheaply; 0 for others."""
    if (not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_nested
            or tensor.is_quantized):
        return 0
    if not tensor.is_contiguous() and not _fills(tensor):
        return 0
    return tensor.numel() * tensor.element_size()


def of_tensor(tensor: torch.Tensor, stride: int = 0) -> Any:
    """Its contents; None if they cannot be read cheaply."""
    size = _readable(tensor)
    try:
        address = tensor.data_ptr() if size else 0
    except RuntimeError:                # a subclass without memory
        return None
    return of_memory(address, size, stride) if address else None


def _fills(tensor: torch.Tensor) -> bool:
    """Whether a permuted tensor fills its range of memory."""
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return 0 < tensor.numel() == last + 1


def of_array(array: Any) -> Any:
    """The contents of a NumPy array; the objects themselves if it holds objects."""
    if array.dtype.hasobject:
        return list(array.flat) if array.size < 4096 else None
    if array.nbytes <= _ARRAY:
        return array.tobytes()
    return array.ravel("K")[::_SPARSE].tobytes() if array.flags.forc else None


def of_buffer(value: Any) -> Any:
    """The contents of what gives access to its memory; of much, a part."""
    with memoryview(value) as view:
        if view.nbytes <= _ARRAY or view.ndim != 1:
            return view.tobytes()
        with view[::_SPARSE] as some:
            return some.tobytes()


class TensorState:
    """What shows that a tensor was written to or reshaped."""

    __slots__ = ("version", "form", "stride", "contents", "gradient", "attributes")

    def __init__(self, tensor: torch.Tensor, budget: Budget,
                 sparse: bool = False) -> None:
        self.version = _version(tensor)
        self.form = _form(tensor)
        self.stride = _SPARSE if sparse else budget.stride(_readable(tensor))
        self.contents = of_tensor(tensor, self.stride)
        self.gradient = _gradient(tensor)
        self.attributes = dict(tensor.__dict__)

    def written(self, tensor: torch.Tensor) -> bool:
        """Whether its elements were written to or it became another tensor."""
        if _version(tensor) != self.version or _form(tensor) != self.form:
            return True
        return (self.contents is not None
                and of_tensor(tensor, self.stride) != self.contents)

    def dressed(self, tensor: torch.Tensor) -> bool:
        """Whether its gradient or an attribute on it changed."""
        return (_gradient(tensor) != self.gradient
                or not same_dict(self.attributes, tensor.__dict__))


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.shape, tensor.dtype, tensor.requires_grad,
            tensor.stride() if tensor.layout is torch.strided else None)


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:                # made for inference only
        return -1


def _gradient(tensor: torch.Tensor) -> tuple[int, int]:
    if not tensor.is_leaf:
        return (0, 0)
    gradient = tensor.grad
    return (0, 0) if gradient is None else (id(gradient), gradient._version)


def same(a: Any, b: Any) -> bool:
    """Whether b stands for the same value as a: the same object, equal plain
    values, or a tensor without a history that has the same bits.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in structures.ATOMS:
        return bool(a == b)
    if kind is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    if issubclass(kind, torch.Tensor):
        return _same_bits(a, b)
    return False


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if _form(a) != _form(b) or a.grad_fn is not None or b.grad_fn is not None:
        return False
    before = of_tensor(a)
    return before is not None and before == of_tensor(b)


def same_dict(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    """Whether two dictionaries have the same keys, in order, for the same values."""
    return len(a) == len(b) and all(
        same(x, y) for x, y in zip(a, b)) and all(map(same, a.values(), b.values()))
