"""Runs a frame's forward again for the tensors that autograd saved in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import torch

from . import interrupts, plain, tensors
from .frame import Frame
from .mute import mute, untraced
from .stack import room
from .sums import LARGE

if TYPE_CHECKING:
    from .blocks import Call


class Stop(BaseException):
    """Ends a recompute early; no ``except Exception`` of the job swallows it.

    Where all that is saved is small it costs more than what is left to do.
    """


def wrap(call: "Call", function: Callable[..., Any]) -> Callable[..., Any]:
    """What is run in a forward's place; a rehearsal sets another."""
    return function


def run_again(frame: Frame, pack: Callable[[torch.Tensor], torch.Tensor],
              enough: Callable[[], bool]) -> None:
    """Run a frame's forward as it was run, and put the present back.

    pack: gets what autograd saves, and must not hand back an output itself: a node
    must not hold its own output. enough: whether an exception may end the run.
    """
    note, module = frame.note, frame.module
    assert note is not None and module is not None
    present = note.enter()
    try:
        plain.push(pack, _as_is)
        try:
            with room, untraced(), mute(), plain.again:
                note.call(wrap(frame.call, frame.original), module)
        except Stop:
            if not enough():
                raise
        except Exception as error:
            # A scripted child turns Stop into an exception of its own.
            if not enough() or interrupts.is_the_jobs(error):
                raise
        finally:
            plain.pop()
    finally:
        note.leave(present)


def recompute(frame: Frame, last: int,
              see: Callable[[int, torch.Tensor], None]) -> list[torch.Tensor]:
    """Run the forward again up to the last saved tensor that is needed.

    Returns the saved tensors in their order, detached. see: is shown the large ones
    with their indices as they are saved, while they are in the caches.
    """
    values: list[torch.Tensor] = []
    light = frame.light

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if len(values) <= last:
            if tensors.nbytes(tensor) >= LARGE:
                see(len(values), tensor)
            values.append(tensor)
            if len(values) > last and not light:
                raise Stop
        return tensor

    run_again(frame, pack, lambda: len(values) > last)
    return values


def _as_is(value: Any) -> Any:
    return value
