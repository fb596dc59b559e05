"""One call of a selected module whose saved tensors are in our hands.

While the module's forward runs, every tensor that autograd saves goes into a
*handle*. Autograd owns the handles; the frame only refers to them weakly, so
that a kept frame frees exactly when plain autograd would.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import tensors
from .note import Note
from .spill import SpilledTensor
from .sums import LARGE, Digester, Digests, Sum, identity

if TYPE_CHECKING:
    from .blocks import Call
    from .device import Device

_ref = weakref.ref

KEEP, DROP, PROVE, MEASURE = "keep", "drop", "prove", "measure"

_LIGHT = 1 << 16     # bytes


class Handle:
    """One saved tensor, owned by the autograd node that saved it."""

    __slots__ = ("frame", "index", "tensor", "version", "sum", "__weakref__")

    frame: "Frame"
    index: int
    tensor: Optional[torch.Tensor]
    version: int
    sum: Sum                # if it was digested as soon as it was saved


class Frame:
    """One call of a selected module whose saved tensors are in our hands."""

    __slots__ = ("call", "original", "module", "note", "handles", "state",
                 "outside", "stride", "digests", "spilled", "light", "inner",
                 "__weakref__")

    def __init__(self, call: "Call", original: Any, module: torch.nn.Module) -> None:
        self.call = call
        self.original = original
        self.module: Optional[torch.nn.Module] = module
        self.note: Optional[Note] = None
        self.handles: list[weakref.ref[Handle]] = []
        self.state = KEEP
        self.outside: set[int] = set()
        self.stride: Optional[int] = None       # of the digests; None: there are none
        self.digests: Optional[Digests] = None
        self.spilled: dict[int, SpilledTensor] = {}
        self.light = False
        self.inner = False      # a backward ran in its forward

    def packer(self, failed: Callable[[Exception], None],
               digester: Optional[Digester] = None) -> Callable[[torch.Tensor], Handle]:
        """What is called whenever autograd saves a tensor.

        failed: is told an error of ours, which the job's forward must not see;
        digester: digests large ones right away.
        """
        handles = self.handles
        append = handles.append

        tried: list[bool] = []

        def pack(tensor: torch.Tensor) -> Handle:
            while True:
                try:
                    handle = Handle()
                    handle.frame = self
                    handle.index = len(handles)
                    # An output would hold its own node through grad_fn for ever.
                    handle.tensor = tensor if tensor.is_leaf else tensor.detach()
                    handle.version = tensor._version
                    handle.sum = None
                    append(_ref(handle))
                    return handle
                except Exception as error:      # once more
                    if tried:
                        raise
                    tried.append(True)
                    failed(error)

        seen: dict[Any, weakref.ref[Handle]] = {}

        def digest(handle: Handle, tensor: torch.Tensor) -> None:
            if (tensors.nbytes(tensor) < LARGE
                    or tensors.address(tensor) in self.outside):
                return
            key = identity(tensor)
            known = seen.get(key, _nobody)()
            if known is not None and known.tensor is not None:
                handle.sum = known.sum
            else:
                assert digester is not None and handle.tensor is not None
                handle.sum = digester.large(handle.tensor)
                seen[key] = _ref(handle)

        def pack_and_digest(tensor: torch.Tensor) -> Handle:
            handle = pack(tensor)
            try:
                digest(handle, tensor)
            except Exception as error:      # it is digested with the rest, then
                failed(error)
            return handle

        return pack_and_digest if digester else pack

    def alive(self) -> list[Handle]:
        """The handles that autograd still holds, in the order of saving."""
        return [h for r in self.handles if (h := r()) is not None]

    def own(self) -> list[Handle]:
        """The handles whose tensors only this frame holds and may give up."""
        outside = self.outside
        return [h for r in self.handles
                if (h := r()) is not None and (t := h.tensor) is not None
                and tensors.address(t) not in outside and tensors.droppable(t)]

    def is_on(self, device: "Device") -> bool:
        """Whether it alone holds anything there."""
        return any(h.tensor is not None and device.has(h.tensor) for h in self.own())

    def weigh(self, held: list[torch.Tensor]) -> None:
        """See whether the tensors that are recomputed and what they are computed
        with are small.
        """
        assert self.note is not None
        self.light = tensors.size(held) + self.note.parameter_bytes < _LIGHT

    def settle(self) -> None:
        """From now on as plain autograd: nothing is left to recompute with."""
        self.state = KEEP
        self.note = None
        self.module = None

    def touched(self) -> bool:
        """Whether an original was written to since: autograd is going to raise."""
        return any(h.tensor is not None and h.tensor._version != h.version
                   for h in self.alive())


def form(tensor: torch.Tensor) -> str:
    """Its dtype and shape, for a message."""
    return named(tensor.dtype, tensor.shape)


def named(dtype: torch.dtype, shape: Any) -> str:
    """A dtype and a shape, for a message."""
    return f"{str(dtype).replace('torch.', '')}{list(shape)}"


def _nobody() -> None:
    return None
