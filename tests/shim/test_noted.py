"""What is found out about storages that only notes hold."""

from __future__ import annotations

import types
from typing import Any, Optional

import pytest
import torch

from ckptshim.noted import Noted, can_count
from ckptshim.structures import alias

pytestmark = pytest.mark.skipif(not can_count(), reason="this torch does not count")


class Tape:
    """The agent's: each address is one storage; segments are marks."""

    def __init__(self) -> None:
        self.marks = "S"
        self.freed = -1

    def watch(self, addresses: list[int]) -> list[int]:
        return [0 if address else -1 for address in addresses]

    def mark(self, letter: str, call: int = -1) -> int:
        self.marks += letter
        return len(self.marks) - 1

    def segment_count(self) -> int:
        return len(self.marks)


class Job:
    """A job that drops calls of one tensor, and what is noted meanwhile."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.noted = Noted(self.tape)               # type: ignore[arg-type]
        self.notes: dict[int, torch.Tensor] = {}

    def drop(self, call: int, tensor: torch.Tensor) -> None:
        """The mark F is this call's; then its note holds an alias."""
        self.noted.given((tensor,), {})
        self.look("F")
        held = self.notes[call] = alias(tensor)
        note = types.SimpleNamespace(aliases=lambda: [held])
        frame: Any = types.SimpleNamespace(
            note=note, call=types.SimpleNamespace(index=call))
        self.noted.dropped(frame)
        self.tape.mark("E")
        self.tape.mark("D")

    def look(self, letter: str) -> None:
        self.noted.look(self.tape.mark(letter), letter == "B")

    def entry(self, dropped: tuple[int, ...] = (0, 1, 2), saved: tuple[int, ...] = (),
              freed: Optional[int] = None) -> Any:
        """The profile's entry for the one storage; None: there is none."""
        self.noted.close()
        if freed is None:
            freed = self.tape.segment_count() - 1
        segments: Any = [types.SimpleNamespace(mark=ord(m)) for m in self.tape.marks]
        storages: Any = [types.SimpleNamespace(bytes=8, freed=freed)]
        entries = self.noted.entries({*dropped}, {*saved}, segments, storages)
        assert len(entries) < 2
        return entries[0] if entries else None


def made() -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * 2


def let_go_at_once(calls: int = 1) -> Job:
    """S, then F E D for each call, X and B; the notes end with the B."""
    job, x = Job(), made()
    for call in range(calls):
        job.drop(call, x)
    del x
    job.look("B")
    job.notes.clear()
    return job


def test_a_tensor_let_go_opens_a_segment_from_which_its_note_is_alone() -> None:
    job = let_go_at_once()
    assert job.tape.marks == "SFEDXB"
    assert job.entry() == {"bytes": 8, "from": 4, "to": 6, "calls": [0], "until": [6]}


def test_each_call_has_the_storage_until_its_note_ends() -> None:
    job, x = Job(), made()
    job.drop(0, x)
    job.drop(2, x)
    del x
    job.look("B")
    del job.notes[2]
    job.tape.mark("R")
    del job.notes[0]
    assert job.entry() == {"bytes": 8, "from": 7, "to": 10, "calls": [0, 2],
                           "until": [10, 9]}


def test_a_note_that_is_there_at_the_end_has_it_to_the_end() -> None:
    job, x = Job(), made()
    job.drop(0, x)
    del x
    job.look("B")
    assert job.entry(freed=-1)["until"] == [6]


def test_what_has_no_end_of_its_own_is_found_by_the_next_look() -> None:
    job, x = Job(), made()
    job.drop(0, x[:1])          # what it is a view of lives on
    job.look("F")
    del x
    job.look("B")
    job.notes.clear()
    assert job.tape.marks == "SFEDFB" and job.entry()["from"] == 5


def test_a_view_takes_what_it_is_a_view_of_along() -> None:
    job, x = Job(), made()[:1]
    job.drop(0, x)
    del x
    job.look("B")
    job.notes.clear()
    # torch 2.4 lets a view go without a word: the next look finds it.
    told = tuple(map(int, torch.__version__.split(".")[:2])) > (2, 4)
    assert job.tape.marks == ("SFEDXB" if told else "SFEDB")
    assert job.entry()["from"] == 4


@pytest.mark.parametrize("other", [
    lambda x: x, lambda x: x[:1], lambda x: x.detach(), lambda x: x.untyped_storage(),
    lambda x: x.exp().grad_fn], ids=["itself", "view", "detached", "storage", "saved"])
def test_what_anything_else_holds_is_not_there_for_notes_alone(other: Any) -> None:
    job, x = Job(), made().exp()        # exp saves what it returns
    kept = other(x)
    job.drop(0, x)
    del x
    job.look("F")
    job.look("B")
    job.notes.clear()
    assert kept is not None and job.entry() is None


def test_a_storage_taken_from_a_tensor_is_not_taken_for_that_tensor() -> None:
    job, x = Job(), made()
    view = x[:1].detach()
    job.drop(0, x)
    x.data = torch.zeros(2)     # its end is not one of a holder
    del x
    job.look("F")
    assert view is not None
    del view
    job.look("B")
    job.notes.clear()
    assert job.entry()["from"] == job.tape.marks.index("B")


def test_what_a_call_saved_or_one_that_is_not_dropped_noted_is_left_out() -> None:
    assert let_go_at_once().entry(saved=(0,)) is None
    assert let_go_at_once(2).entry(dropped=(0,)) is None
    assert let_go_at_once(2).entry(dropped=(0, 1)) is not None


def test_a_segment_in_which_it_is_freed_counts_but_for_one_of_an_exit() -> None:
    """No segment is opened by what is freed before a drop."""
    job, x = Job(), made()
    job.drop(0, x)
    del x
    job.look("F")
    job.tape.mark("E")
    job.notes.clear()
    assert job.entry()["to"] == 6


def test_an_interrupt_in_a_tensors_end_is_raised_at_the_next_look() -> None:
    job, x = Job(), made()
    job.drop(0, x)

    def interrupted(*args: Any) -> int:
        raise KeyboardInterrupt

    mark, job.tape.mark = job.tape.mark, interrupted    # type: ignore[method-assign]
    del x
    job.tape.mark = mark                                # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        job.look("B")
    job.look("B")


def test_a_closed_tape_is_told_nothing_more() -> None:
    job, x = Job(), made()
    job.drop(0, x)
    job.noted.close()
    marks = job.tape.marks
    del x
    job.notes.clear()
    assert job.tape.marks == marks
