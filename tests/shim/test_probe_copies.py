"""Arguments that a forward changes: a recompute may change copies of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ckptshim import structures
from ckptshim.note import Note, Scope
from ckptshim.probe import Look


class Cache:
    def __init__(self) -> None:
        self.layers: list[Any] = []


class Layer:
    def __init__(self, keys: torch.Tensor) -> None:
        self.keys = keys


class Attention(nn.Module):
    """Adds to the cache; reads only what it has just put there."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        keys = self.key(x)
        cache.layers.append(Layer(keys))
        return x + torch.tanh(cache.layers[-1].keys)


class Reading(Attention):
    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        before = sum(layer.keys.sum() for layer in cache.layers)
        return super().forward(x, cache) + before


class Keeping(Attention):
    """The same cache is an attribute as well."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        self.cache.layers.append(1)
        return self.key(x)


def look_at(module: nn.Module, scope: Scope, *args: Any,
            ) -> tuple[Look, Note, torch.Tensor]:
    note = Note.take(scope, module, args, {})
    look = Look(module, type(module).forward, args, {})
    look.copied, look.generators = note.copied(), note.generators()
    with look:
        out = module(*args)
    return look, note, out


def recompute(module: nn.Module, note: Note) -> torch.Tensor:
    present = note.enter()
    try:
        out: torch.Tensor = note.call(type(module).forward, module)
        return out
    finally:
        note.leave(present)


def test_a_changed_record_is_refused_until_the_note_copies_it() -> None:
    module, cache, x = Attention(), Cache(), torch.ones(2, 8)
    scope = Scope(module)
    look, _, _ = look_at(module, scope, x, cache)
    assert look.verdict() == "mutates_arguments" and look.wants_copies
    scope.deep = True
    look, note, out = look_at(module, scope, x, cache)
    assert look.verdict() is None
    assert torch.equal(recompute(module, note), out)
    assert len(cache.layers) == 2       # one for each forward, none by the recompute


def test_a_lean_note_holds_no_tensor_inside_a_record() -> None:
    module, cache, x = Attention(), Cache(), torch.ones(2, 8)
    scope = Scope(module)
    scope.deep = True
    look_at(module, scope, x, cache)
    _, note, out = look_at(module, scope, x, cache)
    held = note.args[1].layers[0].keys
    assert held.shape == (2, 8) and held.requires_grad and held.isnan().all()
    assert held.untyped_storage().nbytes() == 4
    assert torch.equal(recompute(module, note), out)


def test_what_a_forward_reads_from_a_record_shows_as_a_difference() -> None:
    module, cache, x = Reading(), Cache(), torch.ones(2, 8)
    scope = Scope(module)
    scope.deep = True
    look_at(module, scope, x, cache)
    _, note, out = look_at(module, scope, x, cache)
    assert not torch.equal(recompute(module, note), out)
    scope.lean = False
    _, note, out = look_at(module, scope, x, cache)
    assert torch.equal(recompute(module, note), out)


def test_an_argument_that_is_reached_in_another_way_too_is_refused() -> None:
    module, x = Keeping(), torch.ones(2, 8)
    scope = Scope(module)
    scope.deep = True
    look, _, _ = look_at(module, scope, x, module.cache)
    assert look.verdict() is not None


class Holder:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


class Noisy(nn.Module):
    """Draws from what it is given; a record may be around it."""

    def forward(self, x: torch.Tensor, generator: Any) -> torch.Tensor:
        if isinstance(generator, Holder):
            generator = generator.inside
        if isinstance(generator, torch.Generator):
            return x + torch.rand(x.shape, generator=generator)
        return x + generator.random()


@pytest.mark.parametrize("generator", [
    torch.Generator(), random.Random(1), np.random.default_rng(2),
    np.random.RandomState(3), Holder(random.Random(4))],
    ids=lambda g: type(g).__name__)
def test_a_generator_argument_is_put_back(generator: Any) -> None:
    module, x = Noisy(), torch.ones(2, 8)
    for _ in range(2 * structures._ENOUGH):
        look, note, out = look_at(module, Scope(module), x, generator)
        assert look.verdict() is None, look.detail
        drawn = module(x, generator)
        assert torch.equal(recompute(module, note), out)
        assert not torch.equal(module(x, generator), drawn), "it has gone on"


class Store:
    """A cache as the first block finds it, and as the others do."""

    def __init__(self, *entries: Any) -> None:
        self.entries = list(entries)


def test_a_record_that_only_some_blocks_find_full_is_always_copied() -> None:
    for _ in range(2 * structures._ENOUGH):
        empty, full = Store(), Store(torch.ones(2))
        assert structures.Copier().copy(empty) is empty
        twin = structures.Copier().copy(full)
        assert twin is not full and twin.entries is not full.entries


draws = np.random.default_rng(7)


class Global(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + draws.random()


def test_a_global_generator_is_put_back_once_a_look_has_found_it() -> None:
    module, x = Global(), torch.ones(2, 8)
    scope = Scope(module)
    look, _, _ = look_at(module, scope, x)
    assert look.verdict() == "global_effect" and not look.lasting
    scope.outside = look.outside
    look, note, out = look_at(module, scope, x)
    assert look.verdict() is None, look.detail
    after = draws.bit_generator.state
    assert torch.equal(recompute(module, note), out)
    assert draws.bit_generator.state == after


def test_a_list_argument_may_grow_since_notes_always_copy_lists() -> None:
    class Losses(nn.Module):
        def forward(self, x: torch.Tensor, losses: list[Any]) -> torch.Tensor:
            losses.append(x.sum())
            return x * 2

    module, losses, x = Losses(), [], torch.ones(2, 8)
    look, note, out = look_at(module, Scope(module), x, losses)  # type: ignore[arg-type]
    assert look.verdict() is None
    assert torch.equal(recompute(module, note), out) and len(losses) == 1
