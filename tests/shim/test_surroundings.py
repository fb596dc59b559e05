"""What a recompute meets around it: the stack, the standard streams, meters."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import torch
from torch import nn

from ckptshim.mute import mute
from ckptshim.note import Note, Scope
from ckptshim.stack import Room


def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


def test_there_is_more_room_on_the_stack_inside_only() -> None:
    limit, room = sys.getrecursionlimit(), Room()
    with room, room:
        assert depth(2 * limit) == 2 * limit
    assert sys.getrecursionlimit() == limit
    with pytest.raises(RecursionError):
        depth(2 * limit)


def test_a_limit_that_the_job_sets_meanwhile_stays() -> None:
    limit, room = sys.getrecursionlimit(), Room()
    try:
        with room:
            sys.setrecursionlimit(limit + 500)
        assert sys.getrecursionlimit() == limit + 500
    finally:
        sys.setrecursionlimit(limit)


def test_threads_leave_the_limit_as_it_was() -> None:
    limit, room = sys.getrecursionlimit(), Room()
    barrier = threading.Barrier(4)

    def enter() -> None:
        barrier.wait()
        for _ in range(100):
            with room:
                pass

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.getrecursionlimit() == limit


def test_what_is_printed_while_muted_is_not_seen_again(
        capsys: pytest.CaptureFixture[str]) -> None:
    with mute():
        print("again")
        print("again", file=sys.stderr)
    print("once")
    assert capsys.readouterr() == ("once\n", "")


def test_another_thread_is_heard_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    with mute():
        thread = threading.Thread(target=print, args=("from elsewhere",))
        thread.start()
        thread.join()
    assert capsys.readouterr().out == "from elsewhere\n"


class Meter:
    def __init__(self) -> None:
        self.sum = 0.0
        self.count = 0


class Metered(nn.Module):
    """Keeps a meter, which is no module, among its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.meter.sum += float(x.sum())
        self.meter.count += 1
        return x * self.meter.count


def test_a_meter_counts_a_forward_once_and_a_recompute_sees_it_as_it_was() -> None:
    module, x = Metered(), torch.ones(3)
    scope = Scope(module)
    module(x)
    note = Note.take(scope, module, (x,), {})
    out = module(x)
    module(x)
    meter: Any = module.meter
    present = note.enter()
    try:
        again = note.call(Metered.forward, module)
    finally:
        note.leave(present)
    assert torch.equal(again, out)
    assert module.meter is meter and (meter.sum, meter.count) == (9.0, 3)
