"""A proof finds a difference in one bit, wherever in a large tensor it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
import torch
from torch import nn

from ckptshim.blocks import Block
from ckptshim.frame import PROVE
from ckptshim.frames import Frames
from ckptshim.spill import _PIECE, Spill
from ckptshim.sums import LARGE
from ckptshim.watcher import Watcher
from fake_agent import FakeAgent

ROWS, WIDTH = 100, 1024
SIZE = 4 * ROWS * WIDTH
assert SIZE > LARGE and SIZE > 2 * _PIECE and SIZE % _PIECE      # the last is short

nudges: Iterator[Optional[int]] = iter(())


def nudged(x: torch.Tensor) -> torch.Tensor:
    """x, one bit of which is turned if it is time for that."""
    place = next(nudges)
    if place is not None:
        with torch.no_grad():
            x.view(-1).view(torch.int32)[place] ^= 1
    return x


class Dense(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nudged(x * 2).square()


class Gaps(nn.Module):
    """Its saved tensors are two halves of every row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = nudged(x * 2).chunk(2, -1)
        return a * b


class Columns(nn.Module):
    """Its saved tensor is a small part of its storage."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nudged(x.repeat(1, 8) * 2)[:, :200].square()


class Conjugate(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = nudged(x * 2).unflatten(-1, (-1, 2))
        return torch.view_as_complex(pairs).conj().square()


class Outcome(Watcher):
    reasons: list[Optional[str]]
    spill: Any = None

    def proven(self, frame: Any, reason: Optional[str], detail: str) -> None:
        self.reasons = [reason]

    def frame_decided(self, frame: Any) -> None:
        if self.spill is not None:
            assert self.spill(frame) >= SIZE


@pytest.fixture(params=["resident", "spilled"])
def prove(request: Any, tmp_path: Path) -> Any:
    """prove(module, place): the outcome, where a recompute turns the bit at place, and
    the gradient, which is to be the original's.
    """
    def run(module: nn.Module, place: Optional[int]) -> Any:
        global nudges
        nudges = iter((None, place))
        store = Spill(str(tmp_path), 1 << 30, pytest.fail)
        watcher = Outcome()
        frames = Frames(FakeAgent(), watcher, store)    # type: ignore[arg-type]
        if request.param == "spilled":
            watcher.spill = frames.proofs.spill
        block = Block("block", "Net", module, 1, lambda _: None)
        x = torch.linspace(-1, 1, SIZE // 4).view(ROWS, WIDTH).requires_grad_()
        out = frames.forward(block.call(object()), PROVE, None, type(module).forward,
                             module, (x * 1,), {})
        out.abs().sum().backward()
        return watcher.reasons, x.grad
    return run


LAST = ROWS * WIDTH - 1


@pytest.mark.parametrize("module, last", [
    (Dense(), LAST), (Gaps(), LAST), (Columns(), 8 * WIDTH * (ROWS - 1) + 199),
    (Conjugate(), LAST)], ids=lambda m: type(m).__name__)
def test_one_bit_is_enough(prove: Any, module: nn.Module, last: int) -> None:
    reasons, expected = prove(module, None)
    assert reasons == [None]
    for place in (0, 150, last):
        reasons, gradient = prove(module, place)
        assert reasons == ["recompute_differs"]
        assert torch.equal(gradient, expected)
