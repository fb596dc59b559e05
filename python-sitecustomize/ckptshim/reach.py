"""What a watch remembers of each kind of object, and where it goes from there."""

from __future__ import annotations

import array
import collections
import functools
import io
import logging
import mmap
import random
import threading
import types
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch

from . import digest, streams, structures
from .foreign import is_foreign, is_foreign_class

if TYPE_CHECKING:
    from .watch import Watch

# Where an object was first met.
ARGUMENT, MODULE, GLOBAL = "argument", "module", "global"

_EMPTY = object()
_LARGE = 1 << 16        # elements of a global tensor: a data set, perhaps
_CELL = types.CellType

Handler = Callable[["Watch", Any, str, str], None]


def handler(kind: type) -> Handler:
    """handler(kind)(watch, value, origin, path) remembers a value of this type."""
    found = _handlers.get(kind)
    if found is None:
        found = _handlers[kind] = _handler(kind)
    return found


def _nothing(watch: "Watch", value: Any, origin: str, path: str) -> None:
    return


def _list(watch: "Watch", value: Any, origin: str, path: str) -> None:
    items = _items(value)
    watch.record(_same_list, value, items, origin, f"list {path}")
    for item in items:
        watch.push(item, origin, path)


def _same_list(value: Any, items: Any) -> bool:
    now = _items(value)
    return len(now) == len(items) and all(map(digest.same, items, now))


def _items(value: Any) -> list[Any]:
    base = list if isinstance(value, list) else collections.deque
    return list(base.__iter__(value))


def _tuple(watch: "Watch", value: Any, origin: str, path: str) -> None:
    for item in tuple.__iter__(value):
        watch.push(item, origin, path)


def _dict(watch: "Watch", value: Any, origin: str, path: str) -> None:
    items = dict(dict.items(value))
    watch.record(_same_dict, value, items, origin, f"dict {path}")
    for key, item in items.items():
        plain = type(key) in (str, int)
        watch.push(item, origin, f"{path}[{key!r}]" if plain else path)
    attributes = getattr(value, "__dict__", None)
    if attributes:
        watch.push(attributes, origin, path)


def _same_dict(value: Any, items: dict[Any, Any]) -> bool:
    return digest.same_dict(items, dict(dict.items(value)))


def _set(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.record(lambda v, ids: set(map(id, set.__iter__(v))) == ids, value,
                 set(map(id, set.__iter__(value))), origin, f"set {path}")
    for item in set.__iter__(value):
        watch.push(item, origin, path)


def _memory(watch: "Watch", value: Any, origin: str, path: str) -> None:
    """Bytes, numbers, structures of C's: whatever gives access to its memory."""
    watch.record(lambda v, held: digest.of_buffer(v) == held, value,
                 digest.of_buffer(value), origin, path, lasting=True)


def _tensor(watch: "Watch", value: Any, origin: str, path: str) -> None:
    state = digest.TensorState(value, watch.budget,
                               origin == GLOBAL and value.numel() > _LARGE)
    watch.record(_same_tensor, value, state, origin, f"tensor {path}", lasting=True)
    for item in state.attributes.values():
        watch.push(item, origin, path)


def _same_tensor(value: Any, state: digest.TensorState) -> bool:
    return not state.written(value) and not state.dressed(value)


def _ndarray(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.record(lambda v, held: digest.of_array(v) == held, value,
                 digest.of_array(value), origin, f"array {path}", lasting=True)


def _function(watch: "Watch", value: Any, origin: str, path: str) -> None:
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
        watch.push(cell, GLOBAL, name)
    defaults = value.__defaults__ or ()
    for default in (*defaults, *(value.__kwdefaults__ or {}).values()):
        watch.push(default, GLOBAL, f"a default of {path}")
    if value.__dict__:
        watch.push(value.__dict__, GLOBAL, path)
    if watch.static and not is_foreign(value.__globals__):
        for code in _codes(value.__code__):
            watch.names(value.__globals__, code)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _cell(watch: "Watch", value: Any, origin: str, path: str) -> None:
    inside = _inside(value)
    watch.record(lambda cell, held: digest.same(held, _inside(cell)), value, inside,
                 GLOBAL, path)
    watch.push(inside, GLOBAL, path)


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _method(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.push(value.__func__, origin, path)
    watch.push(value.__self__, origin, path)


def _partial(watch: "Watch", value: Any, origin: str, path: str) -> None:
    for item in (value.func, value.args, value.keywords):
        watch.push(item, origin, path)


def _wrapped(watch: "Watch", value: Any, origin: str, path: str) -> None:
    for name in ("__wrapped__", "__func__", "fget", "fset"):
        inner = getattr(value, name, None)
        if inner is not None:
            watch.push(inner, origin, path)


def _reference(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.push(value(), origin, path)


def _variable(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.push(value.get(None), GLOBAL, path)


def _class(watch: "Watch", value: Any, origin: str, path: str) -> None:
    for base in type.__dict__["__mro__"].__get__(value):
        if is_foreign_class(base) or (base is not value and watch.met(base)):
            continue
        watch.skip(base)
        watch.record(_same_class, base, _class_state(base), GLOBAL,
                     f"class {base.__qualname__}")
        for name, item in base.__dict__.items():
            if type(item) is types.FunctionType:
                if not (item.__closure__ or item.__defaults__ or item.__kwdefaults__
                        or item.__dict__ or watch.static):
                    continue
            elif name[:2] == "__":
                continue
            watch.push(item, GLOBAL, f"{base.__qualname__}.{name}")


def _class_state(value: type) -> dict[str, Any]:
    return {name: item for name, item in value.__dict__.items()
            if name[:2] != "__" and not name.startswith("_abc_")}


def _same_class(value: type, state: dict[str, Any]) -> bool:
    now = _class_state(value)
    return now.keys() == state.keys() and all(
        digest.same(item, now[name]) for name, item in state.items())


def _object(watch: "Watch", value: Any, origin: str, path: str) -> None:
    """Attributes in a dictionary or in slots, and the class."""
    kind = type(value)
    if issubclass(kind, torch.nn.Module):
        if id(value) in watch.modules:
            return
        origin = GLOBAL if origin == MODULE else origin
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        held = dict(attributes)
        watch.record(_same_attributes, value, held, origin, f"object {path}")
        for name, item in held.items():
            watch.push(item, origin, f"{path}.{name}")
    for name in structures._slots(kind):
        member = _slot(value, name)
        watch.record(lambda v, held: digest.same(held[1], _slot(v, held[0])), value,
                     (name, member), origin, f"{path}.{name}")
        watch.push(member, origin, f"{path}.{name}")
    if not is_foreign_class(kind):
        watch.push(kind, GLOBAL, kind.__qualname__)


def _same_attributes(value: Any, held: dict[str, Any]) -> bool:
    return digest.same_dict(held, value.__dict__)


def _slot(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return _EMPTY


def _iterator(watch: "Watch", value: Any, origin: str, path: str) -> None:
    """How far it has come, where that can be told without moving it."""
    if origin == ARGUMENT and watch.iterator is None:
        watch.iterator = path
    watch.record(lambda v, held: held is not None and _position(v) == held, value,
                 _position(value), origin, f"iterator {path}", lasting=True)


def _position(value: Any) -> Any:
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        if frame is None:
            return (-1,)
        return frame.f_lasti, {name: (id(item), _hint(item))
                               for name, item in frame.f_locals.items()}
    if type(value).__module__ == "itertools" and type(value).__name__ == "count":
        return repr(value)
    return _hint(value)


def _hint(value: Any) -> Any:
    """How many items a built-in iterator has left; None for anything else."""
    hint = getattr(type(value), "__length_hint__", None)
    return None if hint is None or type(value).__flags__ & (1 << 9) else hint(value)


def _file(watch: "Watch", value: Any, origin: str, path: str) -> None:
    if origin == ARGUMENT and watch.iterator is None:
        watch.iterator = path
    if isinstance(value, (io.StringIO, io.BytesIO)):
        watch.record(lambda v, held: (v.tell(), v.getvalue()) == held, value,
                     (value.tell(), value.getvalue()), origin, f"buffer {path}",
                     lasting=True)


def _weak(watch: "Watch", value: Any, origin: str, path: str) -> None:
    """What is known of objects: entries may go, none may come or change."""
    watch.record(_no_new_entries, value, _entries(value), origin, f"entries of {path}")
    for item in [*value.values()]:
        watch.push(item, origin, path)


def _entries(value: Any) -> dict[int, Any]:
    """By the ids of their keys, which nothing must keep alive."""
    return {id(key): item if type(item) in structures.ATOMS else id(item)
            for key, item in [*value.items()]}


def _no_new_entries(value: Any, held: dict[int, Any]) -> bool:
    return _entries(value).items() <= held.items()


def _script(watch: "Watch", value: Any, origin: str, path: str) -> None:
    watch.scripts.append(value)


# Kinds that never matter, or that look after themselves. Objects may list themselves
# among the living ones.
_IGNORED = (logging.Logger, logging.Handler, weakref.WeakSet,
            weakref.WeakValueDictionary, torch.jit.ScriptModule,
            types.BuiltinFunctionType, types.CodeType, types.FrameType)
_EXACT_KINDS: dict[type, Handler] = {
    list: _list, tuple: _tuple, dict: _dict, set: _set, bytearray: _memory,
    collections.deque: _list, types.FunctionType: _function, _CELL: _cell,
    types.MethodType: _method, functools.partial: _partial, type: _class,
    weakref.ref: _reference, ContextVar: _variable, staticmethod: _wrapped,
    classmethod: _wrapped, property: _wrapped, types.ModuleType: _nothing,
    type(functools.lru_cache(maxsize=1)(len)): _wrapped, array.array: _memory,
    torch.jit.ScriptFunction: _script, types.MappingProxyType: _nothing,
    threading.local: _object,
}
_KINDS: tuple[tuple[Any, Handler], ...] = (
    (torch.Tensor, _tensor), (_IGNORED, _nothing),
    (weakref.WeakKeyDictionary, _weak), (torch.nn.Module, _object),
    (type, _class), (dict, _dict), (list, _list), (tuple, _tuple), (set, _set),
    (collections.deque, _list), (io.IOBase, _file),
    ((memoryview, mmap.mmap, *structures.MEMORY), _memory),
)
_handlers: dict[type, Handler] = dict(_EXACT_KINDS)


def _handler(kind: type) -> Handler:
    for base, handler in _KINDS:
        if issubclass(kind, base):
            return handler
    private = streams.private(kind)
    if private is not None:
        return _stream(private[0])
    root = kind.__module__.partition(".")[0]
    if any(base.__name__ == "ndarray" and base.__module__ == "numpy"
           for base in kind.__mro__):
        return _ndarray
    if hasattr(kind, "__next__"):
        return _iterator
    if root in ("torch", "numpy") or issubclass(kind, random.SystemRandom):
        return _nothing
    return _object


def _stream(take: Callable[[Any], Any]) -> Handler:
    def remember(watch: "Watch", value: Any, origin: str, path: str) -> None:
        watch.record(lambda v, held: bool(take(v) == held), value, take(value),
                     GLOBAL if origin == MODULE else origin, f"generator {path}")
    return remember
