"""Runs a frame's forward again for the tensors that autograd saved in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import plain
from .frame import Frame
from .mute import mute
from .stack import room
from .sums import LARGE, Digester, Sum, identity

if TYPE_CHECKING:
    from .blocks import Call

_push_hooks, _pop_hooks = plain.push, plain.pop


class Stop(BaseException):
    """Ends a recompute early; no ``except Exception`` of the job swallows it.

    Where all that is saved is small it costs more than what is left to do.
    """


def wrap(call: "Call", function: Callable[..., Any]) -> Callable[..., Any]:
    """What is run in a forward's place; a rehearsal sets another."""
    return function


def recompute(frame: Frame, last: int, digester: Digester,
              sums: dict[int, Optional[Sum]]) -> list[torch.Tensor]:
    """Run the forward again up to the last saved tensor that is needed.

    Returns the saved tensors in their order, detached. sums: the indices of
    those to digest; what is found at once is written there.
    """
    values: list[torch.Tensor] = []
    light = frame.light
    large = digester.large
    seen: dict[Any, Optional[Sum]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        # A node must not hold its own output, so never the tensor itself.
        tensor = tensor.detach()
        if len(values) <= last:
            if tensor.nbytes >= LARGE and len(values) in sums:
                key = identity(tensor)
                if key not in seen:
                    seen[key] = large(tensor)
                sums[len(values)] = seen[key]
            values.append(tensor)
            if len(values) > last and not light:
                raise Stop
        return tensor

    note, module = frame.note, frame.module
    assert note is not None and module is not None
    present = note.enter()
    try:
        _push_hooks(pack, _as_is)
        try:
            with room, mute():
                note.call(wrap(frame.call, frame.original), module)
        except (Stop, Exception):
            # A scripted child turns Stop into an exception of its own.
            if len(values) <= last:
                raise
        finally:
            _pop_hooks()
    finally:
        note.leave(present)
    return values


def _as_is(value: Any) -> Any:
    return value
