"""Copies of what a forward was called with, and of what modules hold.

Containers are copied, tensors are not: one that belongs to the job's graph is
held as an alias (the same storage and version counter) that requires a gradient
but has no history, so that a recompute touches neither the graph nor the hooks
on it. Random generators are listed, for their states to be put back. Other
objects are held as they are, unless they carry tensors in plain attributes: then
they are copied too.
"""

from __future__ import annotations

import array
import collections
import copyreg
import ctypes
import dataclasses
import operator
import types
from typing import Any, Callable, Iterable

import torch

from . import streams

_C: Any = torch._C
_plain: Any = torch.Tensor
_parameter: Any = torch.nn.Parameter

# Values without parts that a forward could change.
ATOMS = frozenset({
    type(None), bool, int, float, complex, str, bytes, range, type, type(Ellipsis),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
})
# Objects of Python that give access to memory of their own, and may be written to.
MEMORY = (bytearray, array.array, ctypes.Array, ctypes.Structure, ctypes.Union,
          ctypes._SimpleCData)
_FLAT = frozenset({type(None), bool, int, float, complex, str, _plain, _parameter})
_DEPTH = 6


def is_flat(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether arguments are all plain tensors, numbers and strings."""
    return (_FLAT.issuperset(map(type, args))
            and (not kwargs or _FLAT.issuperset(map(type, kwargs.values()))))


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """The same storage and version counter, requiring a gradient, no history."""
    kind = type(tensor)
    if kind is _plain and not _C._len_torch_function_stack():
        twin = tensor.detach()
    else:
        with _C.DisableTorchFunction():
            twin = tensor.detach()
        if type(twin) is not kind:
            twin = twin.as_subclass(kind)
    twin.requires_grad = True
    attributes = tensor.__dict__
    if attributes:
        twin.__dict__.update(attributes)
    return twin


def hold(values: Iterable[Any], held: dict[int, torch.Tensor]) -> list[Any]:
    """Flat values as a note keeps them: tensors with a history as aliases.

    held: what stands for each tensor met, by the tensor's id; added to.
    """
    made = []
    for value in values:
        if isinstance(value, _plain):
            known = held.get(id(value))
            if known is None:
                known = value if value.grad_fn is None else alias(value)
                held[id(value)] = known
            value = known
        made.append(value)
    return made


class Copier:
    """One pass over a structure. Equal objects become equal copies.

    deep: copy every record, whether there is a tensor inside or not.
    lean: tensors inside records are not held; NaN stands in for them.

    Attributes:
        tensors: the tensors met, as held (each once a place).
        generators: the random generators met, which are the job's own.
        kept: the objects that are held as they are.
    """

    __slots__ = ("tensors", "generators", "kept", "_done", "_depth", "_deep", "_lean",
                 "_records", "_copied")

    def __init__(self, deep: bool = False, lean: bool = False) -> None:
        self.tensors: list[torch.Tensor] = []
        self.generators: list[Any] = []
        self.kept: list[Any] = []
        self._deep = deep
        self._lean = lean
        self._records = 0               # how many records this is inside of
        self._done: dict[int, Any] = {}
        self._copied: list[int] = []
        self._depth = 0

    def copy(self, value: Any) -> Any:
        """A copy of value as far as a forward could change it."""
        kind = type(value)
        if kind in ATOMS:
            return value
        done = self._done.get(id(value))
        if done is not None:
            return done
        handler = _HANDLERS.get(kind)
        if handler is None:
            handler = _HANDLERS[kind] = _handler(kind)
        if handler is _as_it_is and self._deep and kind in _without:
            handler = _object
        if handler is _as_it_is or self._depth > _DEPTH:
            self.kept.append(value)
            return value
        self._depth += 1
        made = self._done[id(value)] = handler(self, value)
        self._depth -= 1
        if made is not value:
            self._copied.append(id(value))
        return made

    def copied(self) -> frozenset[int]:
        """The ids of the objects that there are copies of."""
        return frozenset(self._copied)

    def aliases(self) -> list[torch.Tensor]:
        """Those of its tensors that are not the job's own."""
        held = {*map(id, self.tensors)}
        return [made for i, made in self._done.items() if id(made) != i
                and id(made) in held]

    def dictionary(self, values: dict[Any, Any]) -> dict[Any, Any]:
        """A plain dictionary with copies of the values."""
        copy = self.copy
        return {key: copy(value) for key, value in values.items()}


Handler = Callable[[Copier, Any], Any]


def can_copy(value: Any) -> bool:
    """Whether a deep copier makes a copy of a container or record like this."""
    kind = type(value)
    handler = _HANDLERS.get(kind) or _handler(kind)
    return handler not in (_as_it_is, _tensor, _generator) or kind in _without


def _as_it_is(copier: Copier, value: Any) -> Any:
    return value


def _stand_in(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same form that holds no memory: one NaN (or 0) throughout."""
    filler = float("nan") if value.dtype.is_floating_point else 0
    made = torch.full((), filler, dtype=value.dtype, device=value.device)
    made = made.expand(value.shape)
    return made.requires_grad_() if value.requires_grad else made


def _tensor(copier: Copier, value: Any) -> Any:
    if copier._lean and copier._records and not isinstance(value, _parameter):
        return _stand_in(value)
    if value.grad_fn is not None:
        value = alias(value)
    copier.tensors.append(value)
    return value


def _generator(copier: Copier, value: Any) -> Any:
    copier.generators.append(value)
    return value


def _list(copier: Copier, value: Any) -> Any:
    return [copier.copy(item) for item in value]


def _tuple(copier: Copier, value: Any) -> Any:
    made = tuple([copier.copy(item) for item in value])
    return value if all(map(operator.is_, made, value)) else made


def _dict(copier: Copier, value: Any) -> Any:
    return copier.dictionary(value)


def _set(copier: Copier, value: Any) -> Any:
    return set(value)


def _deque(copier: Copier, value: Any) -> Any:
    return collections.deque(map(copier.copy, value), value.maxlen)


def _slice(copier: Copier, value: Any) -> Any:
    copy = copier.copy
    return slice(copy(value.start), copy(value.stop), copy(value.step))


def _default_dict(copier: Copier, value: Any) -> Any:
    return collections.defaultdict(value.default_factory, copier.dictionary(value))


def _bytearray(copier: Copier, value: Any) -> Any:
    return bytearray(value)


def _dict_subclass(copier: Copier, value: Any) -> Any:
    kind: Any = type(value)
    made = kind.__new__(kind)
    if isinstance(value, collections.defaultdict):
        made.default_factory = value.default_factory
    if isinstance(value, collections.OrderedDict):
        for key in collections.OrderedDict.__iter__(value):
            collections.OrderedDict.__setitem__(
                made, key, copier.copy(dict.__getitem__(value, key)))
    else:
        dict.update(made, copier.dictionary(dict(value)))
    _copy_attributes(copier, value, made)
    return made


def _list_subclass(copier: Copier, value: Any) -> Any:
    made = list.__new__(type(value))
    list.extend(made, [copier.copy(item) for item in list.__iter__(value)])
    _copy_attributes(copier, value, made)
    return made


def _tuple_subclass(copier: Copier, value: Any) -> Any:
    """Named tuples and the like."""
    made = tuple.__new__(type(value), [copier.copy(i) for i in tuple.__iter__(value)])
    _copy_attributes(copier, value, made)
    return made


def _object(copier: Copier, value: Any) -> Any:
    """A record of plain attributes; held as it is unless a tensor is inside."""
    kind = type(value)
    before, copied = len(copier.tensors), len(copier._copied)
    generators = len(copier.generators)
    made = object.__new__(kind)
    copier._done[id(value)] = made      # it may refer to itself
    copier._records += 1
    _copy_attributes(copier, value, made)
    copier._records -= 1
    if len(copier.tensors) > before:
        _carriers.add(kind)
        return made
    if copier._deep:
        return made
    del copier._copied[copied:]         # what is inside stays the job's own
    copier.kept.append(value)
    if len(copier.generators) > generators or kind in _carriers:
        return value
    _without[kind] = _without.get(kind, 0) + 1
    if _without[kind] > _ENOUGH:        # a configuration: never look inside again
        _HANDLERS[kind] = _as_it_is
    return value


def _namespace(copier: Copier, value: Any) -> Any:
    return types.SimpleNamespace(**copier.dictionary(value.__dict__))


# How many records of a type held no tensor, and the types of those that held one: a
# cache that the first block finds empty is full for the next.
_without: dict[type, int] = {}
_carriers: set[type] = set()
_ENOUGH = 8


def _copy_attributes(copier: Copier, value: Any, made: Any) -> None:
    attributes = getattr(value, "__dict__", None)
    if attributes:
        made.__dict__.update(copier.dictionary(attributes))
    for name in _slots(type(value)):
        try:
            item = object.__getattribute__(value, name)
        except AttributeError:
            continue
        object.__setattr__(made, name, copier.copy(item))


def _slots(kind: type) -> list[str]:
    names: list[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    return names


_HANDLERS: dict[type, Handler] = {
    _plain: _tensor, _parameter: _tensor, list: _list, tuple: _tuple, dict: _dict,
    set: _set, slice: _slice, collections.deque: _deque, bytearray: _bytearray,
    collections.defaultdict: _default_dict, types.SimpleNamespace: _namespace,
}


def _handler(kind: type) -> Handler:
    """How values of a type that is not in the table are copied."""
    if issubclass(kind, torch.Tensor):
        return _tensor
    if issubclass(kind, (torch.nn.Module, type)):
        return _as_it_is
    if streams.private(kind) is not None:
        return _generator
    if issubclass(kind, dict) and kind.__new__ in (dict.__new__, _ordered_new):
        return _dict_subclass
    if issubclass(kind, list) and kind.__new__ is list.__new__:
        return _list_subclass
    if issubclass(kind, tuple):
        return _tuple_subclass if hasattr(kind, "_fields") else _as_it_is
    return _object if _is_record(kind) else _as_it_is


_ordered_new: Any = collections.OrderedDict.__new__


def _is_record(kind: type) -> bool:
    """Whether an instance is no more than its attributes."""
    bases = kind.__mro__[:-1]
    new: Any = kind.__new__
    if new is not object.__new__ or not all(map(_python_made, bases)):
        return False
    return dataclasses.is_dataclass(kind) or not any(
        name in base.__dict__ for base in bases for name in _OWN_WAYS)


# A class that defines one of these has its own idea of a copy or of an end.
_OWN_WAYS = ("__copy__", "__deepcopy__", "__getstate__", "__reduce__",
             "__reduce_ex__", "__del__")


def _python_made(kind: type) -> bool:
    return bool(kind.__flags__ & (1 << 9))      # Py_TPFLAGS_HEAPTYPE
