"""Why a recompute was not its forward: which operation, and is it repeatable?

Off the path of ordinary steps: asked only once two results differ. The block is
run once more with the same inputs. If that again gives other bits than the
first recompute, some kernel is not repeatable; if it agrees, something that the
block reads has changed since its forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from . import interrupts, tensors
from .recompute import run_again

if TYPE_CHECKING:
    from .frame import Frame


class Difference(str):
    """What differs, in words; "" if nothing does.

    Attributes:
        place: of the saved tensor that differs, -1 if none is at fault.
    """

    place: int

    def __new__(cls, text: str = "", index: int = -1) -> "Difference":
        made = super().__new__(cls, text)
        made.place = index
        return made


def explain(frame: "Frame", found: Difference, indices: list[int],
            values: list[torch.Tensor]) -> str:
    """found, and behind it what another recompute tells.

    values: what the first recompute gave for indices.
    """
    if found.place < 0:
        return found
    try:
        again, names = _once_more(frame, max(indices))
    except Exception as error:
        if interrupts.is_the_jobs(error):
            raise
        return f"{found}; another recompute raised {type(error).__name__}: {error}"
    made_by = names[found.place] if found.place < len(names) else ""
    text = f"{found}{made_by and f', made by {made_by}'}"
    if _same(indices, values, again):
        return (f"{text}; another recompute agrees with the first one: something "
                "that the block reads has changed since its forward")
    return (f"{text}; another recompute with the same inputs differs from both: a "
            "kernel in the block is not repeatable")


def may_be_workspace(tensor: torch.Tensor) -> bool:
    """Whether a saved tensor has the form of one, see ``workspaces``."""
    return tensor.dtype == torch.uint8 and tensor.dim() == 1


def workspaces(frame: "Frame", last: int) -> set[int]:
    """Which of the saved tensors up to last are what oneDNN's recurrent layers keep for
    their backward. Some of its bytes are never written, and never read.

    torch's derivatives.yaml has mkldnn_rnn_layer save its results in their order: the
    workspace comes after the last one that has a gradient.
    """
    found, names = _once_more(frame, last)
    return {i for i in range(1, len(found)) if may_be_workspace(found[i])
            and names[i - 1].startswith("MkldnnRnnLayerBackward")}


def _same(indices: list[int], values: list[torch.Tensor],
          again: list[torch.Tensor]) -> bool:
    if not indices or max(indices) >= len(again):
        return False
    return all(tensors.same_form(value, again[index])
               and tensors.same_bits(value, again[index])
               for index, value in zip(indices, values))


def _once_more(frame: "Frame", last: int) -> tuple[list[torch.Tensor], list[str]]:
    """The saved tensors up to last, and what made each of them."""
    found: list[torch.Tensor] = []
    names: list[str] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if len(found) <= last:
            names.append(_producer(tensor))
            found.append(tensor.detach())
        return tensor.detach()

    run_again(frame, pack, lambda: False)
    return found, names


def _producer(tensor: torch.Tensor) -> str:
    """The operation whose result a tensor is, as autograd names it."""
    node = tensor.grad_fn
    return node.name().removesuffix("0") if node is not None else ""
