"""Things outside of a block that can be remembered and made what they were.

Each kind of place has ``past()``, what is kept for a recompute (None: nothing
is put back for it; never a tensor with a graph), ``present()``, what stands
there now, and ``put(wanted, now)``, which writes only what differs.
"""

from __future__ import annotations

import array
import ctypes
import enum
import itertools
import operator
import sys
import types
import weakref
from typing import Any, Iterable, Iterator, Optional, Sequence

import torch

from . import attributes, contents, streams, structures
from .foreign import is_foreign_class

_SMALL = 128            # entries that are kept in a note
_BYTES = 1 << 18        # that are compared at all
_LARGE = 1 << 16        # entries that are compared at all
_ABSENT: Any = object()     # nothing stands here
_SKIP: Any = object()       # stands for what may not be kept for long
_PLAIN = structures.ATOMS


def _is_plain(values: Iterable[Any]) -> bool:
    """Whether these may be kept for long: numbers, names, functions."""
    return _PLAIN.issuperset(map(type, values))


def can_keep(value: Any) -> bool:
    """Whether a value may be kept for long: it holds no memory to speak of."""
    kind = type(value)
    test = _tests.get(kind)
    if test is None:
        test = _tests[kind] = _find_test(kind)
    return test is True or (test is not False and test(value))


# By type: whether values can be kept, or what tells for each.
_tests: dict[type, Any] = {kind: True for kind in (*_PLAIN, object)}
_tests.update({tuple: _is_plain, frozenset: _is_plain,
               torch.Tensor: lambda value: Numbers.fits(value, contents.SMALL)})


def _find_test(kind: type) -> bool:
    return issubclass(kind, enum.Enum) or (
        kind.__module__ == "numpy"
        and any(base.__name__ == "generic" for base in kind.__mro__))


def _kept(values: Sequence[Any]) -> Sequence[Any]:
    """What may be kept of them for long."""
    if _is_plain(values):
        return values
    return [v if can_keep(v) else _SKIP for v in values]


def _to_write(places: Iterable[Any], wanted: Iterable[Any], now: Iterable[Any],
              ) -> Iterator[tuple[Any, Any]]:
    """The places that do not hold what was kept of them, each with that."""
    for place, then, value in zip(places, wanted, now):
        if then is not value and then is not _SKIP:
            yield place, then


class Place:
    """Nothing that could change."""

    __slots__ = ()

    def past(self) -> Any:
        """What to keep with a note, None for nothing."""
        return self.present()

    def present(self) -> Any:
        """What stands here now."""
        return None

    def put(self, wanted: Any, now: Any) -> None:
        """Make it what was wanted, if now differs."""


class Bindings(Place):
    """Global names of one module that are bound to numbers and the like."""

    __slots__ = ("_scope", "_names", "_get")

    def __init__(self, scope: dict[str, Any], names: list[str]) -> None:
        self._scope, self._names = scope, names
        self._get = operator.itemgetter(*names, names[0])   # two at least: a tuple

    def past(self) -> Any:
        return _kept(self.present())

    def present(self) -> Any:
        try:
            return self._get(self._scope)
        except KeyError:
            return [self._scope.get(name, _ABSENT) for name in self._names]

    def put(self, wanted: Any, now: Any) -> None:
        for name, then in _to_write(self._names, wanted, now):
            if then is _ABSENT:
                del self._scope[name]
            else:
                self._scope[name] = then


class Code(Place):
    """Functions that names of modules and classes stand for."""

    __slots__ = ("_names", "_rows", "_then")

    def __init__(self, owners: dict[int, tuple[Any, list[str]]]) -> None:
        self._rows = []
        self._names: list[tuple[Any, str]] = []
        for owner, found in owners.values():
            names = *found, found[0]                # two at least: a tuple
            self._rows.append((_dict_of(owner), operator.itemgetter(*names)))
            self._names += [(owner, name) for name in names]
        self._then = self.present()

    @classmethod
    def of(cls, names: Iterable[tuple[Any, str]]) -> Optional["Code"]:
        """Of these owners and names."""
        found: dict[int, tuple[Any, list[str]]] = {}
        for owner, name in names:
            found.setdefault(id(owner), (owner, []))[1].append(name)
        return cls(found) if found else None

    def is_other(self, past: Any) -> bool:
        """Whether they stood for others when this was made."""
        return not all(map(operator.is_, past, self._then))

    def present(self) -> Any:
        try:
            return [value for own, get in self._rows for value in get(own)]
        except KeyError:
            return [_dict_of(owner).get(name, _ABSENT) for owner, name in self._names]

    def put(self, wanted: Any, now: Any) -> None:
        for (owner, name), value in _to_write(self._names, wanted, now):
            _bind(owner, name, value)


def _dict_of(owner: Any) -> Any:
    return owner.__dict__ if isinstance(owner, type) else owner


def _bind(owner: Any, name: str, value: Any) -> None:
    if not isinstance(owner, type):
        if value is _ABSENT:
            owner.pop(name, None)
        else:
            owner[name] = value
    elif value is not _ABSENT:
        setattr(owner, name, value)
    elif name in owner.__dict__:
        delattr(owner, name)


class Cells(Place):
    """Variables of closures that hold numbers and the like."""

    __slots__ = ("_cells",)

    def __init__(self, cells: list[Any]) -> None:
        self._cells = cells

    def past(self) -> Any:
        return _kept(self.present())

    def present(self) -> Any:
        try:
            return [cell.cell_contents for cell in self._cells]
        except ValueError:
            return [_inside(cell) for cell in self._cells]

    def put(self, wanted: Any, now: Any) -> None:
        for cell, then in _to_write(self._cells, wanted, now):
            if then is _ABSENT:
                del cell.cell_contents
            else:
                cell.cell_contents = then


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


class Items(Place):
    """A built-in container and what is in it."""

    __slots__ = ("_container", "_base", "_exact")

    def __init__(self, container: Any) -> None:
        self._container = container
        self._base: Any = attributes.base_of(type(container))
        self._exact = type(container) in attributes.CONTAINERS

    @staticmethod
    def fits(value: Any) -> bool:
        """Whether it is such a container."""
        kind = type(value)
        base: Any = attributes.base_of(kind)
        return (base not in (None, bytearray)
                and (kind in attributes.CONTAINERS or not is_foreign_class(kind))
                and base.__len__(value) <= _LARGE)

    def inside(self) -> list[Any]:
        """What is in it, if that is not much."""
        if self._base.__len__(self._container) > _SMALL:
            return []
        items = self._items()
        return list(items.values() if isinstance(items, dict) else items)

    def _items(self) -> Any:
        """A copy."""
        base, container = self._base, self._container
        if self._exact:
            return container.copy()
        if issubclass(base, dict):
            return dict(base.items(container))
        return (set if base is set else list)(base.__iter__(container))

    def past(self) -> Any:
        if self._base.__len__(self._container) > _SMALL:
            return None
        items = self._items()
        if isinstance(items, dict):
            return items if _is_plain(items.values()) else _plain_only(items)
        return items if _is_plain(items) else None

    def present(self) -> Any:
        few = self._base.__len__(self._container) <= _LARGE
        return self._items() if few else None

    def put(self, wanted: Any, now: Any) -> None:
        if now is None or attributes.same_items(wanted, now):
            return
        if isinstance(wanted, dict) and any(v is _SKIP for v in wanted.values()):
            wanted = _mixed(wanted, now)
        attributes.refill(self._container, wanted)


class _Partly(dict[Any, Any]):
    """With keys alone for what may not be kept for long."""


def _plain_only(items: dict[Any, Any]) -> dict[Any, Any]:
    """What may be kept for long."""
    kept = {key: value if can_keep(value) else _SKIP for key, value in items.items()}
    partly = any(map(operator.is_, kept.values(), itertools.repeat(_SKIP)))
    return _Partly(kept) if partly else kept


def _mixed(wanted: dict[Any, Any], now: dict[Any, Any]) -> dict[Any, Any]:
    """What was wanted, with what is there now where nothing was kept."""
    return {key: now[key] if value is _SKIP else value
            for key, value in wanted.items() if value is not _SKIP or key in now}


def _put_plain(own: dict[Any, Any], wanted: dict[Any, Any],
               now: dict[Any, Any]) -> None:
    """Put back what ``_plain_only`` kept."""
    for key in now.keys() - wanted.keys():
        own.pop(key, None)
    for key, value in wanted.items():
        if value is not _SKIP and now.get(key, _ABSENT) is not value:
            own[key] = value


class Attributes(Place):
    """The attributes of an object of the job's, which is not kept alive if it can be
    referred to weakly: the model may be among them.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        try:
            self._owner: Any = weakref.ref(owner)
        except TypeError:
            self._owner = lambda: owner

    @property
    def _own(self) -> dict[str, Any]:
        owner = self._owner()
        return {} if owner is None else owner.__dict__

    def past(self) -> Any:
        own = self._own
        if len(own) > _SMALL:
            return None
        return own.copy() if _is_plain(own.values()) else _plain_only(own)

    def present(self) -> Any:
        return dict(self._own)

    def put(self, wanted: Any, now: Any) -> None:
        _put_plain(self._own, wanted, now)


class Groups(Place):
    """What an optimizer's groups of parameters are set to, the learning rate first.
    It is not kept alive, and its state is no block's matter.
    """

    __slots__ = ("_optimizer",)

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)

    def _groups(self) -> list[dict[str, Any]]:
        optimizer = self._optimizer()
        return [] if optimizer is None else optimizer.param_groups

    def present(self) -> Any:
        return [_plain_only(group) for group in self._groups()]

    def put(self, wanted: Any, now: Any) -> None:
        for group, then, values in zip(self._groups(), wanted, now):
            _put_plain(group, then, values)


class Slots(Place):
    """The slots of an object of the job's."""

    __slots__ = ("_object", "_members")

    def __init__(self, value: Any) -> None:
        self._object = value
        found = [getattr(type(value), name) for name in structures._slots(type(value))]
        self._members = [m for m in found if type(m) is types.MemberDescriptorType]

    def __len__(self) -> int:
        return len(self._members)

    def past(self) -> Any:
        return _kept(self.present())

    def present(self) -> Any:
        return [_member(each, self._object) for each in self._members]

    def put(self, wanted: Any, now: Any) -> None:
        for member, then in _to_write(self._members, wanted, now):
            if then is _ABSENT:
                member.__delete__(self._object)
            else:
                member.__set__(self._object, then)


def _member(member: Any, value: Any) -> Any:
    try:
        return member.__get__(value)
    except AttributeError:
        return _ABSENT


class ClassAttributes(Place):
    """The numbers and the like among the attributes of a class of the job's."""

    __slots__ = ("_own", "_class", "_names", "_size")

    def __init__(self, kind: type) -> None:
        self._own = kind.__dict__
        self._class = kind
        self._size = -1
        self._names: list[str] = []

    def present(self) -> Optional[dict[str, Any]]:
        own = self._own
        if len(own) != self._size:
            self._size = len(own)
            self._names = [name for name, value in own.items()
                           if name[:2] != "__" and type(value) in _DATA]
        return {name: own[name] for name in self._names} if self._names else _NONE

    def put(self, wanted: Any, now: Any) -> None:
        if wanted is now:
            return
        kind = self._class
        for name in now.keys() - wanted.keys():
            delattr(kind, name)
        for name, value in wanted.items():
            if now.get(name, _ABSENT) is not value:
                setattr(kind, name, value)


class Numbers(Place):
    """A tensor on the CPU that is not large and has no history."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    @staticmethod
    def fits(value: Any, most: int = _BYTES) -> bool:
        """Whether it is one, of at most so many bytes."""
        return (type(value) is torch.Tensor and value.grad_fn is None
                and contents.is_small(value, most))

    def past(self) -> Any:
        small = self._tensor.nbytes <= contents.SMALL
        return self.present() if small else None

    def present(self) -> tuple[Any, int]:
        return contents.take(self._tensor), self._tensor._version

    def put(self, wanted: Any, now: Any) -> None:
        if wanted != now:
            contents.put(self._tensor, wanted[0])
            contents.set_versions([self._tensor], [wanted[1]])


class Memory(Place):
    """A NumPy array that is not large, or other memory that holds numbers."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def fits(value: Any) -> bool:
        """Whether it is such memory, and may be written to."""
        numpy: Any = sys.modules.get("numpy")
        if not isinstance(value, structures.MEMORY) and (
                numpy is None or type(value) is not numpy.ndarray
                or value.dtype.hasobject):
            return False
        try:
            with memoryview(value) as view:
                return view.nbytes <= _BYTES and not view.readonly
        except ValueError:              # a dtype that buffers do not know
            return False

    def past(self) -> Any:
        with memoryview(self._value) as view:
            return view.tobytes() if view.nbytes <= contents.SMALL else None

    def present(self) -> bytes:
        with memoryview(self._value) as view:
            return view.tobytes()

    def put(self, wanted: Any, now: Any) -> None:
        if wanted == now:
            return
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and type(self._value) is numpy.ndarray:
            value = self._value
            value[...] = numpy.frombuffer(wanted, value.dtype).reshape(value.shape)
        elif type(self._value) is bytearray:
            self._value[:] = wanted
        elif type(self._value) is array.array:
            del self._value[:]
            self._value.frombytes(wanted)
        else:
            with memoryview(self._value) as view:
                same_size = view.nbytes == len(wanted)
            if same_size:
                memory = (ctypes.c_char * len(wanted)).from_buffer(self._value)
                ctypes.memmove(memory, wanted, len(wanted))


class Stream(Place):
    """A random generator."""

    __slots__ = ("generator", "_take", "_put")

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        found = streams.private(type(generator))
        assert found is not None
        self._take, self._put = found

    def present(self) -> Any:
        return self._take(self.generator)

    def put(self, wanted: Any, now: Any) -> None:
        if wanted != now:
            self._put(self.generator, wanted)


_NONE: dict[str, Any] = {}
_DATA = frozenset((bool, int, float, complex, str, bytes, type(None), torch.dtype,
                   torch.device))
