"""Globals, closures and classes that a block's code leads to are put back."""

from __future__ import annotations

import array
import collections
import ctypes
import functools
import gc
import multiprocessing
import random
import types
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ckptshim import outside, places
from ckptshim.note import Note, Scope

count = 0
log: list[Any] = []
table: dict[str, Any] = {"scale": 1.0, "inner": [1, 2]}
recent: collections.deque[int] = collections.deque(maxlen=3)
names: set[str] = set()
stream = random.Random(3)
noise = torch.Generator().manual_seed(5)


scalar, weights = torch.zeros(()), np.zeros(3)
counts = (ctypes.c_int * 2)()
raw, numbers = bytearray(4), array.array("f", [1.0])
shared = multiprocessing.Value("d", 0.0)
factor = np.float64(1)
pair = (1, "a")
rebound = torch.zeros(2)
deep: dict[str, Any] = {"a": {"b": {"c": {"d": [1]}}}}
teacher = nn.Linear(1, 1)
teacher.temperature = 1.0           # type: ignore[assignment]
settings = types.SimpleNamespace(act="tanh", scale=[1.0])
ordered = collections.OrderedDict(a=1, b=2)
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)


class Bag(dict[str, Any]):
    """Its own code must not run when it is put back."""

    def _never(self, *args: Any) -> Any:
        raise AssertionError("the job's code ran")

    __setitem__ = update = clear = copy = __iter__ = __len__ = _never


class Stack(list[Any]):
    __setitem__ = copy = __iter__ = __len__ = Bag._never


bag, stack = Bag(a=1, inner=[1]), Stack([1])


def add(number: int, to: list[Any]) -> None:
    to.append(number)


bound = functools.partial(add, to=[])


class Meter:
    total = 0.0

    def __init__(self) -> None:
        self.seen = 0
        self.history: list[int] = []

    def bump(self) -> None:
        global late
        self.seen += 1
        late = self.seen


class Ticks:
    __slots__ = ("count", "other")

    def __init__(self) -> None:
        self.count = 0


meter = Meter()
late = 0


def helper() -> Any:
    """Reached by its name only."""
    return names, noise


helper.scale = 1.0                  # type: ignore[attr-defined]
helper.seen = []                    # type: ignore[attr-defined]
nested: Any = ([], {"inner": ([1],)})


class Block(nn.Module):
    strength = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()
        self.ticks = Ticks()
        self.table = {"inner": [1]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if count < 0:           # never: what stands here begins later
            helper()
            meter.bump()
            bound(scalar.item() + weights[0] + counts[0] + raw[0] + shared.value
                  + factor + pair[0] + rebound[0].item() + numbers[0]
                  + deep["a"]["b"]["c"]["d"][0] + teacher.temperature)
            bound(helper.scale + len(nested[0]))
            bound(settings.scale[0] + bag["a"] + stack[0] + ordered["a"])
            bound(optimizer.param_groups[0]["lr"] + scheduler.last_epoch)
        return x * table["scale"] * self.strength + len(log) + len(recent) \
            + stream.random()


def everything(block: nn.Module, closed: Any) -> list[Any]:
    return [count, log[:], dict(table), list(table["inner"]), list(recent), set(names),
            stream.getstate(), noise.get_state().tolist(), meter.seen, late,
            Meter.total, Block.strength, vars(Block).get("other"), closed(),
            scalar.item(), weights.tolist(), list(counts), bytes(raw), list(numbers),
            factor, pair, rebound.tolist(), shared.value,
            deep["a"]["b"]["c"]["d"][:], teacher.temperature,
            helper.scale, helper.seen[:], nested[0][:], nested[1]["inner"][0][:],
            vars(settings).copy(), settings.scale[:], dict.copy(bag),
            list(dict.get(bag, "inner", ())), list.copy(stack), list(ordered.items()),
            bound.keywords["to"][:],
            optimizer.param_groups[0]["lr"], scheduler.last_epoch,
            block.meter.seen, list(block.meter.history), list(block.table["inner"]),
            block.ticks.count, getattr(block.ticks, "other", None)]


def disturb(block: nn.Module) -> None:
    global count, late, factor, pair, rebound
    count += 5
    late -= 7
    log.append(count)
    table["scale"] = count
    table["inner"].insert(0, 9)
    recent.extend([1, 2, count])
    names.add(f"name {count}")
    stream.random()
    torch.rand(3, generator=noise)
    meter.seen += 1
    Meter.total += 1
    Block.strength += 2
    Block.other = count
    factor, pair, rebound = factor + 1, (*pair, 1), rebound + 1
    helper.scale += 1
    helper.seen.append(count)
    nested[0].append(count)
    nested[1]["inner"][0].append(count)
    scalar.add_(1)
    weights[1] += 1
    counts[1] += 1
    raw[2] += 1
    numbers[0] += 1
    numbers.append(2)
    shared.value += 1
    deep["a"]["b"]["c"]["d"].append(count)
    teacher.temperature += 1
    settings.act = "sin"
    settings.scale[0] += 1
    dict.update(bag, a=count, b=0)
    bag["inner"].append(count)
    list.append(stack, count)
    ordered.move_to_end(next(iter(ordered)))
    optimizer.param_groups[0]["lr"] += 1
    scheduler.last_epoch += 1
    bound(count)
    block.meter.seen += 1
    block.meter.history.append(count)
    block.table["inner"].append(count)
    block.ticks.count += 1
    block.ticks.other = count


@pytest.fixture
def taken() -> Any:
    """A block with a hook that has a closure, its note, and how things stood."""
    block, calls = Block(), 0

    def hook(module: Any, args: Any, out: Any) -> None:
        nonlocal calls
        calls += 1

    handle = block.register_forward_hook(hook)
    scope = Scope(block)
    scope.outside = outside.of([block], [Block.forward])
    note = Note.take(scope, block, (torch.ones(2),), {})
    then = everything(block, lambda: calls)

    def more() -> None:
        disturb(block)
        hook(None, None, None)
    yield note, then, more, lambda: everything(block, lambda: calls)
    handle.remove()


def test_a_recompute_sees_the_past_and_leaves_the_present(taken: Any) -> None:
    note, then, more, now = taken
    more()
    before = now()
    assert all(a != b for a, b in zip(then, before)), "each place was disturbed"
    present = note.enter()
    assert now() == then
    more()
    note.leave(present)
    assert now() == before


def test_a_note_from_before_the_look_still_undoes_effects() -> None:
    block = Block()
    scope = Scope(block)
    note = Note.take(scope, block, (torch.ones(2),), {})
    scope.outside = outside.of([block], [Block.forward])
    before = everything(block, lambda: 0)
    present = note.enter()
    disturb(block)
    note.leave(present)
    assert everything(block, lambda: 0) == before


def test_what_has_a_graph_is_not_held_by_a_note() -> None:
    block, scope = Block(), None
    scope = Scope(block)
    scope.outside = outside.of([block], [Block.forward])
    kept = torch.ones(2, requires_grad=True) * 2
    log.append(kept)
    table["kept"] = kept
    try:
        note = Note.take(scope, block, (torch.ones(2),), {})
        states = note._outside
        assert states is not None
        held = [v for s in states.values if isinstance(s, (list, dict))
                for v in (s.values() if isinstance(s, dict) else s)]
        assert not any(isinstance(v, torch.Tensor) and v.requires_grad for v in held)
        present = note.enter()
        assert log[-1] is kept and table["kept"] is kept
        log.clear()
        note.leave(present)
        assert log[-1] is kept
    finally:
        log.clear()
        del table["kept"]


def test_code_without_names_of_the_job_leads_to_what_may_be_patched_alone() -> None:
    layer = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    found = outside.of([layer, *layer], [nn.Sequential.forward])
    assert [type(place) for place in found._places] == [places.Code]
    assert outside.NOTHING.past() is None


def plain_act(x: torch.Tensor) -> torch.Tensor:
    return x.tanh()


def logged_act(x: torch.Tensor) -> torch.Tensor:
    log.append(1)
    return x.tanh()


act = plain_act


class Acts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line, self.own = nn.Linear(2, 2), plain_act

    def help(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.help(self.own(act(self.line(x))))


def counted(self: Any, x: torch.Tensor) -> torch.Tensor:
    log.append(2)
    return torch.tanh(x)


def look_at(scope: Scope, block: nn.Module) -> bool:
    """Whether what is run now was looked at before; it is from then on."""
    note = Note.take(scope, block, (torch.ones(2),), {})
    if not note.known:
        scope.learn((), outside.of([*block.modules()], [type(block).forward]))
    return note.known


@pytest.mark.parametrize("owner, name, other", [
    ("global", "act", logged_act), ("attribute", "own", logged_act),
    (Acts, "help", counted), (nn.Linear, "forward", counted),
    (nn.Module, "__call__", counted)])
def test_other_code_is_looked_at_and_put_back(
        monkeypatch: Any, owner: Any, name: str, other: Any) -> None:
    block = Acts()
    scope = Scope(block)
    assert [look_at(scope, block) for _ in range(3)] == [False, True, True]
    note = Note.take(scope, block, (torch.ones(2),), {})

    def current() -> Any:
        if owner == "global":
            return globals()[name]
        return getattr(block if owner == "attribute" else owner, name)
    plain = current()
    with monkeypatch.context() as patch:
        if owner == "global":
            patch.setitem(globals(), name, other)
        else:
            patch.setattr(block if owner == "attribute" else owner, name, other)
        present = note.enter()
        assert current() is plain       # the recompute runs what its forward ran
        note.leave(present)
        assert current() is other
        assert not look_at(scope, block)
    look_at(scope, block)
    assert look_at(scope, block)


def test_a_hook_of_every_module_is_looked_at() -> None:
    block = Acts()
    scope = Scope(block)
    look_at(scope, block)
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda *args: log.append(1))
    try:
        assert [look_at(scope, block) for _ in range(2)] == [False, True]
    finally:
        handle.remove()
    assert look_at(scope, block)


class Bumps(nn.Module):
    def forward(self, x: torch.Tensor, meter: Any, options: Any) -> torch.Tensor:
        meter.bump()
        meter.history.append(1)
        options["meter"].seen += 1
        return x


def test_objects_among_the_arguments_are_left_as_they_were() -> None:
    block, given, inside = Bumps(), Meter(), Meter()
    args = (torch.ones(2), given, {"meter": inside})
    for _ in range(20):                 # also when its class is known to hold no tensor
        note = Note.take(Scope(block), block, args, {})
        block(*args)
        before = [given.seen, given.history[:], inside.seen]
        present = note.enter()
        note.call(Bumps.forward, block)
        note.leave(present)
        assert [given.seen, given.history, inside.seen] == before


registry: dict[str, Any] = {"active": None}


class Listens(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if registry["active"] is not None:
            registry["active"].bump()
        return x


def test_an_object_that_was_not_there_is_looked_at() -> None:
    block = Listens()
    scope = Scope(block)
    assert [look_at(scope, block) for _ in range(3)] == [False, True, True]
    registry["active"] = Meter()
    try:
        assert [look_at(scope, block) for _ in range(3)] == [False, True, True]
    finally:
        registry["active"] = None


@pytest.mark.parametrize("bound", [False, True])
def test_each_new_hook_is_looked_at_if_only_its_closure_is_new(bound: bool) -> None:
    block = Acts()
    scope = Scope(block)

    class Logger:
        def hook(self, *args: Any) -> None:
            pass

    def hook() -> Any:
        seen: list[int] = []
        return Logger().hook if bound else lambda *args: seen.append(1)
    for _ in range(3):
        handle = block.line.register_forward_hook(hook())
        assert not look_at(scope, block)
        assert look_at(scope, block)
        handle.remove()
        look_at(scope, block)
        assert look_at(scope, block)


def test_where_a_look_found_an_effect_the_next_one_is_taken_again() -> None:
    block = Acts()
    scope = Scope(block)
    for harmless in (False, False, True):
        assert not Note.take(scope, block, (torch.ones(2),), {}).known
        scope.learn((), outside.NOTHING, harmless)
    assert Note.take(scope, block, (torch.ones(2),), {}).known


class Holder:
    def __init__(self, model: Any) -> None:
        self.model, self.scale = model, 1.0


class Held(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * holder.scale + teacher.temperature


holder: Any = None


def test_an_object_that_holds_the_model_may_die_with_it() -> None:
    global holder
    block = Held()
    holder = Holder(block)
    found = outside.of([block], [Held.forward])
    assert len(found)
    gone = weakref.ref(block), weakref.ref(holder)
    gc.disable()
    try:
        del block
        holder = None
        assert [r() for r in gone] == [None, None]
    finally:
        gc.enable()
    outside.leave(found.enter(found.past()))


total, table_of_c = torch.zeros(1 << 14), np.zeros(1 << 14)


class Totals(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        table_of_c[:] += 1
        return x


def test_effects_on_tensors_and_arrays_that_are_not_large_are_undone() -> None:
    block = Totals()
    scope = Scope(block)
    scope.outside = outside.of([block], [Totals.forward])
    note = Note.take(scope, block, (torch.ones(2),), {})
    block(torch.ones(2))
    version = total._version
    present = note.enter()
    note.call(Totals.forward, block)
    note.leave(present)
    assert total[0] == total[-1] == 1 and total._version == version
    assert table_of_c[0] == table_of_c[-1] == 1


def test_large_and_strange_things_are_left_alone() -> None:
    big = list(range(1000))

    class Odd:
        __slots__ = ("x",)

        def __eq__(self, other: object) -> bool:
            raise ValueError("must not be compared")

    odd = Odd()

    class Reads(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + len(big) + (odd is None)

    block = Reads()
    scope = Scope(block)
    scope.outside = outside.of([block], [Reads.forward])
    note = Note.take(scope, block, (torch.ones(2),), {})
    big.append(1)
    present = note.enter()
    assert len(big) == 1001     # too much to hold a copy of for every forward,
    big.append(2)
    note.leave(present)
    assert len(big) == 1001     # but not for the length of a recompute
