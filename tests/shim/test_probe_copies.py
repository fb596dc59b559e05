"""Arguments that a forward changes: a recompute may change copies of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

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


def look_at(module: nn.Module, scope: Scope, x: torch.Tensor, cache: Cache
            ) -> tuple[Look, Note, torch.Tensor]:
    note = Note.take(scope, module, (x, cache), {})
    look = Look(module, type(module).forward, (x, cache), {})
    look.copied = note.copied()
    with look:
        out = module(x, cache)
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


def test_a_list_argument_may_grow_since_notes_always_copy_lists() -> None:
    class Losses(nn.Module):
        def forward(self, x: torch.Tensor, losses: list[Any]) -> torch.Tensor:
            losses.append(x.sum())
            return x * 2

    module, losses, x = Losses(), [], torch.ones(2, 8)
    look, note, out = look_at(module, Scope(module), x, losses)  # type: ignore[arg-type]
    assert look.verdict() is None
    assert torch.equal(recompute(module, note), out) and len(losses) == 1
