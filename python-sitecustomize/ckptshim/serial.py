"""Numbers that tell objects apart, also from those that are gone."""

from __future__ import annotations

import itertools
import types
import weakref
from typing import Any

_next = itertools.count()
_known: dict[int, tuple[weakref.ref[Any], int]] = {}


def number(value: Any) -> Any:
    """Of a function or another object that can be called: the same as long as it lives,
    and nobody else's ever after. One that cannot be referred to weakly has a new one
    each time.
    """
    if type(value) is types.MethodType:
        return number(value.__self__), number(value.__func__)
    key = id(value)
    known = _known.get(key)
    if known is not None and known[0]() is value:
        return known[1]
    found = next(_next)
    try:
        reference = weakref.ref(value, lambda _: _known.pop(key, None))
    except TypeError:
        return found
    _known[key] = reference, found
    return found
