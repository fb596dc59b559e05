"""What a block's code could reach outside of it: globals, closures, classes.

A look at a first forward finds no effect on them, but one may begin later: a
value appended to a global list from step 50 on, a scale set around the forward.
So the names in the code that a block may run are followed, not far, and what
they lead to is remembered with each note, put back for its recompute, and made
what it was afterwards.

Only small and plain things are followed: names bound to numbers and the like,
built-in containers, attributes of the job's own objects and classes, random
generators. What is not followed shows in the digests, if it matters.
"""

from __future__ import annotations

import argparse
import collections
import enum
import functools
import threading
import types
from typing import Any, Iterator, Optional

import torch

from . import attributes, streams, structures
from .foreign import is_foreign, is_foreign_class
from .patch import own_code
from .places import (
    Attributes,
    Bindings,
    Cells,
    ClassAttributes,
    Code,
    Groups,
    Items,
    Memory,
    Numbers,
    Place,
    Slots,
    Stream,
    can_keep,
)
from .tree import STANDARD

_FUNCTIONS = 256        # whose code is read
_PLACES = 64            # of each kind, for one block
_NAMES = 64             # of one module, and variables of closures
_DEPTH = 4              # of containers inside containers
_MISSING = object()
# Classes of Python's library that are no more than what a job puts into them.
_HOLDERS = (types.SimpleNamespace, argparse.Namespace, collections.UserDict,
            collections.UserList, threading.local, torch.optim.lr_scheduler.LRScheduler)
_WRAPPERS = (staticmethod, classmethod)
_CODE = (types.FunctionType, type)
_CALLED = {"forward", "__call__", "_call_impl"}     # of a module; a job may patch them


class State:
    """How the places of one Outside stood. other: they led to more than in its look."""

    __slots__ = ("places", "values", "other")

    def __init__(self, places: list[Place], values: list[Any],
                 other: bool = False) -> None:
        self.places = places
        self.values = values
        self.other = other


class Outside:
    """The places that one block's code leads to."""

    def __init__(self, places: list[Place], code: Optional[Code] = None) -> None:
        self._code = code
        self._places = [*places, code] if code else places
        # What could be kept of each place at the end of the look, and before the
        # forward after it. Where something else can be, there is an object that was
        # not there to be followed.
        self._kept = {self._types([place.past() for place in self._places])}
        self._fresh = True

    def __len__(self) -> int:
        return len(self._places)

    def past(self) -> Optional[State]:
        """How things stand, to be kept with a note; holds no tensor with a graph."""
        places = self._places
        if not places:
            return None
        values = [place.past() for place in places]
        types = self._types(values)
        other = types not in self._kept or (self._code is not None
                                            and self._code.is_other(values[-1]))
        if self._fresh:
            self._kept.add(types)
            self._fresh = False
        return State(places, values, other)

    @staticmethod
    def _types(values: list[Any]) -> tuple[type, ...]:
        return tuple(map(type, values))

    def enter(self, past: Optional[State]) -> Optional[State]:
        """Put a past back, if there is one; what ``leave`` needs."""
        places = self._places if past is None else past.places
        if not places:
            return None
        present = State(places, [place.present() for place in places])
        for place, then, now in zip(places, past.values if past else (),
                                    present.values):
            if then is not None:
                place.put(then, now)
        return present


def leave(present: Optional[State]) -> None:
    """Make everything what it was at ``enter``."""
    if present is not None:
        for place, then in zip(present.places, present.values):
            place.put(then, place.present())


NOTHING = Outside([])


def of_generators(generators: list[Any]) -> Outside:
    """These random generators themselves."""
    return Outside([*map(Stream, generators)]) if generators else NOTHING


def of_objects(values: list[Any]) -> Outside:
    """What objects of the job's hold, and what that leads to."""
    walk = _Walk()
    for value in values:
        if not isinstance(value, (torch.nn.Module, *_CODE)):
            walk.value(value, 0)
    places = walk.found()
    return Outside(places) if places else NOTHING


def generators(state: Optional[State]) -> frozenset[int]:
    """The ids of the random generators among the places of a state."""
    return frozenset(id(place.generator) for place in state.places
                     if isinstance(place, Stream)) if state else frozenset()


def of(modules: list[torch.nn.Module], functions: list[Any]) -> Outside:
    """What the code of these modules' classes and of functions leads to."""
    walk = _Walk()
    for module in modules:
        walk.known(module)
        walk.classes.append(type(module))
        for table in (module._forward_hooks, module._forward_pre_hooks):
            functions = functions + list(table.values())
    for function in functions:
        walk.value(function, 0)
    walk.run()
    for module in modules:
        walk.module(module)
    walk.run()
    places = walk.found()
    return Outside(places, Code.of(walk.code)) if places or walk.code else NOTHING


class _Walk:
    """Follows names from function to function, breadth first."""

    def __init__(self) -> None:
        self._places: dict[type, list[Place]] = {}
        self._names: dict[int, tuple[dict[str, Any], list[str]]] = {}
        self._cells: list[Any] = []
        self.code: list[tuple[Any, str]] = []       # owners and names of functions
        self.classes: collections.deque[type] = collections.deque()
        self._functions: collections.deque[types.FunctionType] = collections.deque()
        self._seen: set[Any] = set()
        self._count = 0

    def run(self) -> None:
        """Until there is nothing left to follow, or enough was."""
        while self._count < _FUNCTIONS and (self._functions or self.classes):
            if self._functions:
                self._function(self._functions.popleft())
            else:
                self._class(self.classes.popleft())

    def found(self) -> list[Place]:
        """The places met; what is alike in one."""
        places: list[Place] = [Bindings(scope, names[:_NAMES])
                               for scope, names in self._names.values()]
        if self._cells:
            places.append(Cells(self._cells[:_NAMES]))
        for alike in self._places.values():
            places += alike[:_PLACES]
        return places

    def _new(self, key: Any) -> bool:
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _add(self, place: Place) -> None:
        self._places.setdefault(type(place), []).append(place)

    def _function(self, function: types.FunctionType) -> None:
        self._count += 1
        code = own_code(function.__code__)
        for inner in _codes(code):
            for name in inner.co_names:
                self._name(function.__globals__, name, inner)
        for cell in function.__closure__ or ():
            if self._new(id(cell)):
                self._cell(cell)
        for default in function.__defaults__ or ():
            self.value(default, 0)
        if function.__dict__:
            self._add(Attributes(function))
            for item in function.__dict__.values():
                self.value(item, 1)

    def _cell(self, cell: Any) -> None:
        try:
            inside = cell.cell_contents
        except ValueError:
            return
        if _is_bound(inside):
            self._cells.append(cell)
        self.value(inside, 0)

    def _name(self, scope: dict[str, Any], name: str, code: types.CodeType) -> None:
        value = scope.get(name, _MISSING)
        if (value is _MISSING or name[:2] == "__"
                or not self._new((id(scope), name))):
            return
        if isinstance(value, types.ModuleType):
            if not is_foreign(value.__dict__):
                for attribute in code.co_names:
                    self._name(value.__dict__, attribute, code)
            return
        if _is_bound(value):
            self._names.setdefault(id(scope), (scope, []))[1].append(name)
        elif type(value) is types.FunctionType:
            self.code.append((scope, name))
        self.value(value, 0)

    def value(self, value: Any, depth: int) -> None:
        """Follow what a name, a cell or a container holds."""
        kind = type(value)
        if kind in _BOUND or depth > _DEPTH or not self._new(id(value)):
            return
        if kind is types.FunctionType:
            if not is_foreign(value.__globals__):
                self._functions.append(value)
        elif kind is types.MethodType:
            self.value(value.__func__, depth)
            self.value(value.__self__, depth)
        elif isinstance(value, type):
            self.classes.append(value)
        elif kind is tuple or (issubclass(kind, tuple) and not is_foreign_class(kind)):
            for item in tuple.__iter__(value):
                self.value(item, depth + 1)
        elif kind is functools.partial:
            for item in (value.func, *value.args, *value.keywords.values()):
                self.value(item, depth)
        elif Items.fits(value):
            items = Items(value)
            self._add(items)
            for item in items.inside():
                self.value(item, depth + 1)
            if kind not in attributes.CONTAINERS:
                self._object(value, depth)
        elif streams.private(kind) is not None:
            self._add(Stream(value))
        elif Numbers.fits(value):
            self._add(Numbers(value))
        elif Memory.fits(value):
            self._add(Memory(value))
        elif isinstance(value, torch.nn.Module):
            self._add(Attributes(value))
        elif kind.__module__ == "multiprocessing.sharedctypes":
            self.value(value.get_obj(), depth)
        elif not isinstance(value, torch.Tensor):
            self._object(value, depth)

    def known(self, module: torch.nn.Module) -> None:
        """A snapshot puts this module's attributes back."""
        self._new(id(module))

    def module(self, module: torch.nn.Module) -> None:
        """Follow the attributes of a module."""
        for name, value in vars(module).items():
            if name not in STANDARD:
                self._held(value)

    def _held(self, value: Any) -> None:
        """Follow a module's attribute; what a snapshot puts back is no place. Of a
        tensor that is what the attribute is, not what it holds.
        """
        if attributes.taker(type(value)) is None or Numbers.fits(value):
            self.value(value, 0)
        elif self._new(id(value)):
            for item in _inside(value):
                self.value(item, 1)

    def _object(self, value: Any, depth: int) -> None:
        kind = type(value)
        if isinstance(value, torch.optim.Optimizer):
            self._add(Groups(value))
        if issubclass(kind, enum.Enum) or (is_foreign_class(kind)
                                           and not issubclass(kind, _HOLDERS)):
            return
        own = getattr(value, "__dict__", None)
        if type(own) is dict:
            self._add(Attributes(value))
            for item in own.values():
                self.value(item, depth + 1)
        slots = Slots(value)
        if len(slots):
            self._add(slots)
            for item in slots.present():
                self.value(item, depth + 1)
        if type(own) is dict or len(slots):
            self.classes.append(kind)

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            if issubclass(base, enum.Enum) or not self._new(("class", id(base))):
                continue
            if is_foreign_class(base):
                for name in _CALLED & base.__dict__.keys():
                    self._method(base, name)
                continue
            self._add(ClassAttributes(base))
            for name, item in list(base.__dict__.items()):
                self._method(base, name)
                if isinstance(item, _WRAPPERS):
                    item = item.__func__
                elif isinstance(item, property):
                    item = item.fget
                if not isinstance(item, type):
                    self.value(item, 1)

    def _method(self, kind: type, name: str) -> None:
        item = kind.__dict__[name]
        if type(item) is types.FunctionType:
            self.code.append((kind, name))
            self.value(item, 1)


def _inside(value: Any) -> list[Any]:
    """What a module's attribute leads to."""
    if isinstance(value, tuple):
        return list(value)
    if Items.fits(value):
        return Items(value).inside()
    return list(getattr(value, "__dict__", {}).values())


_BOUND = structures.ATOMS - {*_CODE}


def _is_bound(value: Any) -> bool:
    """Whether a name is followed to see what it is bound to, which is kept."""
    return not isinstance(value, _CODE) and can_keep(value)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
