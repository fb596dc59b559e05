"""What a buffer holds: taken as bytes, written back unseen by version counters.

A CPU buffer's bytes are kept outside torch's allocator; any other tensor is
cloned.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .tensors import PLAIN

_C: Any = torch._C
_autograd: Any = _C._autograd
_at = ctypes.string_at

# Tensors, each with what ``take`` made of it.
Held = list[tuple[torch.Tensor, Any]]

SMALL = 1 << 12     # bytes that are remembered whether or not they ever change


def take(tensor: torch.Tensor) -> Any:
    """Bytes of a plain dense CPU tensor, a clone of any other."""
    if tensor.is_cpu and type(tensor) in PLAIN and _is_dense(tensor):
        return _at(tensor.data_ptr(), tensor.nbytes)
    with torch.no_grad(), _C.DisableTorchFunction():
        return tensor.detach().clone()


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.is_contiguous()


def is_small(tensor: torch.Tensor, most: int = SMALL) -> bool:
    """Whether it is a plain one on the CPU and has at most so many bytes."""
    return (tensor.is_cpu and type(tensor) in PLAIN and _is_dense(tensor)
            and tensor.nbytes <= most)


def put(tensor: torch.Tensor, held: Any) -> None:
    """Write it back if it differs; the tensor's version stays as it is."""
    if type(held) is bytes:
        if not (tensor.is_cpu and _is_dense(tensor) and tensor.nbytes == len(held)):
            return                      # it has another form now: not ours to write
        address = tensor.data_ptr()
        if _at(address, len(held)) != held:
            ctypes.memmove(address, held, len(held))
        return
    with torch.no_grad(), _C.DisableTorchFunction():
        tensor.data.copy_(held)         # .data has a version counter of its own


def same(tensor: torch.Tensor, held: Any) -> bool:
    """Whether a tensor still holds what was taken of it."""
    if type(held) is bytes:
        return bool(take(tensor) == held)
    with torch.no_grad(), _C.DisableTorchFunction():
        return tensor.shape == held.shape and all(
            map(torch.equal, _strided(tensor.detach()), _strided(held)))


def _strided(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that a sparse one is made of; any other itself."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def take_all(tensors: list[torch.Tensor]) -> Held:
    """What each of these tensors holds."""
    return [(tensor, take(tensor)) for tensor in tensors]


def put_all(held: Held) -> None:
    """Write back those that differ."""
    for tensor, inside in held:
        put(tensor, inside)


def can_put(tensor: torch.Tensor) -> bool:
    """Whether ``put`` can restore it exactly."""
    return (type(tensor) in (torch.Tensor, torch.nn.Buffer)
            if hasattr(torch.nn, "Buffer") else type(tensor) is torch.Tensor) and (
        tensor.layout is torch.strided and not tensor.is_quantized)


def set_versions(tensors: list[torch.Tensor], versions: list[int]) -> None:
    """Make version counters what they were, after contents were put back."""
    for tensor, version in zip(tensors, versions):
        if tensor._version != version:
            try:
                _autograd._unsafe_set_version_counter((tensor,), (version,))
            except TypeError:           # torch 2.4 and 2.5 take one tensor
                _autograd._unsafe_set_version_counter(tensor, version)
