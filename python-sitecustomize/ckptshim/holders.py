"""Which module holds a module: for names in a model that is never called itself."""

from __future__ import annotations

import gc
import weakref
from typing import NamedTuple, Optional

from torch import nn

_SEARCHES = 16      # among all objects of the process, each some 50 ms
_DEPTH = 32


class _Place(NamedTuple):
    """Where a module is held."""

    module: "weakref.ref[nn.Module]"
    holder: "weakref.ref[nn.Module]"
    key: str


_places: dict[int, _Place] = {}
_searches = 0


def name_of(module: nn.Module) -> str:
    """A module's dotted name in the outermost one that holds it; "" if none does."""
    if _place_of(module) is None:
        _search()
    keys: list[str] = []
    while len(keys) < _DEPTH:
        place = _place_of(module)
        holder = place.holder() if place is not None else None
        if place is None or holder is None:
            break
        keys.insert(0, place.key)
        module = holder
    return ".".join(keys)


def _place_of(module: nn.Module) -> Optional[_Place]:
    place = _places.get(id(module))
    return place if place is not None and place.module() is module else None


def _search() -> None:
    global _searches
    if _searches >= _SEARCHES:
        return
    _searches += 1
    _places.clear()
    for value in gc.get_objects():
        if issubclass(type(value), nn.Module):
            for key, child in value.__dict__.get("_modules", {}).items():
                if child is not None:
                    _places.setdefault(id(child), _Place(
                        weakref.ref(child), weakref.ref(value), key))
