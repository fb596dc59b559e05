"""Replacing a function in a class by one that reads exactly like it.

The replacement has the original's globals, name, file, line, signature,
annotations and attributes, so that ``inspect``, pickling by name, scripting
and tools that read signatures see no difference.
"""

from __future__ import annotations

import inspect
import types
from typing import Any, Callable, Optional

Function = types.FunctionType
Run = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]


def _template(run: Any, original: Any, is_compiling: Any) -> Any:
    def replacement(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        if is_compiling():
            return original(self, *args, **kwargs)
        return run(original, self, args, kwargs)
    return replacement


def resemble(pattern: Any, original: Function) -> Function:
    """A function with pattern's behaviour and original's appearance.

    pattern is a closure; its free variables come first, so that scripting
    finds those of the original as well.
    """
    seen = original.__code__
    names = pattern.__code__.co_freevars
    extra = tuple(n for n in seen.co_freevars if n not in names)
    cells = dict(zip(seen.co_freevars, original.__closure__ or ()))
    changes: dict[str, Any] = {
        "co_filename": seen.co_filename, "co_firstlineno": seen.co_firstlineno,
        "co_name": seen.co_name, "co_freevars": names + extra}
    if hasattr(seen, "co_qualname"):
        changes["co_qualname"] = seen.co_qualname
    code = pattern.__code__.replace(**changes)
    closure = pattern.__closure__ + tuple(cells[n] for n in extra)
    made = Function(code, original.__globals__, original.__name__, None, closure)
    _dress(made, original)
    return made


def _dress(made: Function, original: Function) -> None:
    made.__qualname__ = original.__qualname__
    made.__module__ = original.__module__
    made.__doc__ = original.__doc__
    if hasattr(original, "__annotate__"):
        made.__annotate__ = original.__annotate__
    else:
        made.__annotations__ = original.__annotations__
    if hasattr(original, "__type_params__"):
        made.__type_params__ = original.__type_params__
    made.__dict__.update(original.__dict__)
    if "__wrapped__" not in original.__dict__:
        made.__dict__["__signature__"] = inspect.signature(original)


class Patches:
    """The functions replaced so far, each once, and how to undo them."""

    def __init__(self, is_compiling: Callable[[], bool]) -> None:
        self._is_compiling = is_compiling
        self._done: dict[tuple[type, str], tuple[Any, Any]] = {}

    def owner(self, cls: type, name: str) -> Optional[type]:
        """The class whose own dictionary defines name, if it is a function."""
        for base in cls.__mro__:
            if name in base.__dict__:
                return base if isinstance(base.__dict__[name], Function) else None
        return None

    def replace(self, cls: type, name: str, run: Run) -> bool:
        """Route cls.name through ``run(original, self, args, kwargs)``."""
        owner = self.owner(cls, name)
        if owner is None:
            return False
        current = owner.__dict__[name]
        known = self._done.get((owner, name))
        if known is not None and known[1] is current:
            return True
        made = resemble(_template(run, current, self._is_compiling), current)
        try:
            setattr(owner, name, made)
        except (AttributeError, TypeError):
            return False
        self._done[owner, name] = (current, made)
        return True

    def restore(self, cls: type, name: str) -> None:
        """Put an original back, unless somebody else has replaced it since."""
        owner = self.owner(cls, name)
        if owner is not None and (owner, name) in self._done:
            original, made = self._done.pop((owner, name))
            if owner.__dict__.get(name) is made:
                setattr(owner, name, original)

    def undo(self) -> None:
        """Put back every original."""
        for owner, name in list(self._done):
            self.restore(owner, name)
