"""The attributes of one module: how each kind is remembered and put back.

Most values are remembered by reference. Plain containers are remembered with
their contents, one level deep; generators with their state; tensors with a
history by an alias, when the memory may outlive the iteration.
"""

from __future__ import annotations

import collections
import operator
from typing import Any, Callable, Optional

import torch

from . import streams, structures

Taker = Callable[[Any, bool], Any]
_MISSING = object()

# Containers whose contents are put back.
CONTAINERS = (list, dict, set, collections.OrderedDict, collections.defaultdict,
              collections.deque, collections.Counter, bytearray)


_BASES = (collections.OrderedDict, dict, list, set, collections.deque, bytearray)


def _held(value: Any) -> Any:
    """The value, without a history."""
    if isinstance(value, torch.Tensor):
        return structures.alias(value) if value.grad_fn is not None else value
    if isinstance(value, tuple) and not structures.ATOMS.issuperset(map(type, value)):
        return structures.Copier().copy(value)
    return value


def _take_value(value: Any, past: bool) -> Any:
    return _held(value) if past else value


class Contents:
    """A container and what was in it."""

    __slots__ = ("kind", "identity", "container", "items")

    def __init__(self, container: Any, past: bool) -> None:
        self.kind = type(container)
        self.identity = id(container)
        self.container = None if past else container
        self.items = container.copy()
        if past and not isinstance(container, (bytearray, set)):
            _hold_items(self.items)

    def same(self, now: Any) -> bool:
        """Whether now is the same container with the same contents."""
        return (type(now) is Contents and now.identity == self.identity
                and now.kind is self.kind and same_items(self.items, now.items))

    def put(self, own: dict[str, Any], key: str, now: Any) -> None:
        """Make own[key] the container with its contents."""
        if type(now) is not self.kind or id(now) != self.identity:
            now = self.container if self.container is not None else self.items.copy()
            own[key] = now
        if not same_items(now, self.items):
            refill(now, self.items)


def _hold_items(items: Any) -> None:
    keyed = isinstance(items, dict)
    if set(map(type, items.values() if keyed else items)) <= structures.ATOMS:
        return
    for place in list(items) if keyed else range(len(items)):
        items[place] = _held(items[place])


def same_items(a: Any, b: Any) -> bool:
    """Whether two containers of one kind hold the same objects in one order."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(map(operator.is_, a, b)) and all(
            map(operator.is_, a.values(), b.values()))
    if isinstance(a, (set, bytearray)):
        return bool(a == b)
    return all(map(operator.is_, a, b))


def refill(container: Any, items: Any) -> None:
    """Make these the items of a container, of a class derived from a built-in one
    too, without running any code of it.
    """
    base: Any = base_of(type(container))
    if base in (list, bytearray):
        base.__setitem__(container, slice(None), items)
        return
    base.clear(container)
    if base is collections.OrderedDict:
        for key, value in items.items():
            base.__setitem__(container, key, value)
    elif base is collections.deque:
        base.extend(container, items)
    else:
        base.update(container, items)


def base_of(kind: type) -> Optional[type]:
    """The built-in container that a class is derived from."""
    return next((base for base in _BASES if issubclass(kind, base)), None)


class Record:
    """A plain object and its attributes, a meter for example."""

    __slots__ = ("record", "items")

    def __init__(self, record: Any, past: bool) -> None:
        self.record = record
        self.items = dict(record.__dict__)
        if past:
            _hold_items(self.items)

    def same(self, now: Any) -> bool:
        """Whether now is the same object with the same attributes."""
        return (type(now) is Record and now.record is self.record
                and same_items(self.items, now.items))

    def put(self, own: dict[str, Any], key: str, now: Any) -> None:
        """Make own[key] the object with its attributes."""
        if now is not self.record:
            own[key] = self.record
        if not same_items(self.record.__dict__, self.items):
            self.record.__dict__.clear()
            self.record.__dict__.update(self.items)


class Generator:
    """A private random generator and where it stood."""

    __slots__ = ("generator", "state", "_take", "_put")

    def __init__(self, generator: Any, take: Any, put: Any) -> None:
        self.generator = generator
        self._take, self._put = take, put
        self.state = take(generator)

    def same(self, now: Any) -> bool:
        """Whether now is the same generator, standing where it stood."""
        return (type(now) is Generator and now.generator is self.generator
                and bool(now.state == self.state))

    def put(self, own: dict[str, Any], key: str, now: Any) -> None:
        """Make own[key] the generator, standing where it stood."""
        if now is not self.generator:
            own[key] = self.generator
        if self._take(self.generator) != self.state:
            self._put(self.generator, self.state)


_takers: dict[type, Optional[Taker]] = {kind: None for kind in structures.ATOMS}
_takers.update({kind: Contents for kind in CONTAINERS})
_takers[tuple] = _take_value


def taker(kind: type) -> Optional[Taker]:
    """What remembers values of a type; None: a reference will do."""
    try:
        return _takers[kind]
    except KeyError:
        found = _takers[kind] = _find_taker(kind)
        return found


def _find_taker(kind: type) -> Optional[Taker]:
    if issubclass(kind, (torch.Tensor, tuple)):
        return _take_value
    private = streams.private(kind)
    if private is None:
        return Record if _is_meter(kind) else None
    take, put_back = private
    return lambda value, past: Generator(value, take, put_back)


def _is_meter(kind: type) -> bool:
    return (structures._is_record(kind) and not structures._slots(kind)
            and not issubclass(kind, torch.nn.Module) and kind.__dictoffset__ != 0)


def is_generator(value: Any) -> bool:
    """Whether a value is a random generator, whose state is put back."""
    return streams.private(type(value)) is not None


def same(held: list[Any], now: list[Any]) -> bool:
    """Whether two snapshots of the same attributes agree."""
    if all(map(operator.is_, held, now)):
        return True
    return all(a is b or (isinstance(a, (Contents, Generator, Record)) and a.same(b))
               for a, b in zip(held, now))


def put(own: dict[str, Any], keys: tuple[str, ...], held: list[Any],
        order: tuple[str, ...]) -> bool:
    """Make a module's attributes what was held of them.

    order: all its keys. Returns whether keys came or went.
    """
    disturbed = False
    for key, wanted in zip(keys, held):
        now = own.get(key, _MISSING)
        if now is wanted:
            continue
        disturbed |= now is _MISSING
        if isinstance(wanted, (Contents, Generator, Record)):
            wanted.put(own, key, now)
        else:
            own[key] = wanted
    if len(own) != len(order):
        disturbed = True
        for key in own.keys() - set(order):
            del own[key]
    if disturbed:
        reorder(own, order)
    return disturbed


def reorder(own: dict[str, Any], order: tuple[str, ...]) -> None:
    """Put a dictionary's keys in this order, if it has just these."""
    if tuple(own) != order and own.keys() == set(order):
        items = [(key, own[key]) for key in order]
        own.clear()
        own.update(items)
