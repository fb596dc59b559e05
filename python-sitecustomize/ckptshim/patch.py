"""Routing a function of a class through the shim without replacing it.

Only the code object changes. The function stays the object that it was, with
its name, signature, defaults, annotations, closure, file and line, so that
``inspect``, pickling, scripting, and code that compares functions by identity
see no difference. The new code takes the same parameters and reaches the shim
by importing a module of one name: that is all that compilers which read
bytecode can follow.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import types
from typing import Any, Callable, Optional

Function = types.FunctionType
Run = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]

GATE = "ckptagent_gate"

_SOURCE = """
def make({cells}):
    def {name}({parameters}):
        {keep}
        try:
            import {gate} as {local}
        except ImportError:
            {local} = None
        if {local} is not None and {local}.token == {token!r}:
            if {local}.is_compiling():
                return {local}.originals[{number}]({passed})
            return {local}.runs[{number}](
                {local}.originals[{number}], {first}, ({positional}), dict({keywords}))
        import types as {local}
        return {local}.FunctionType({own!r}, globals(), {title!r}, None,
            {closure})({passed})
    return {name}
"""
_OWN = "the code of the original"


def _gate(is_compiling: Callable[[], bool]) -> Any:
    """The module that the new code of patched functions imports.

    Its originals are twins of the patched functions, with their first code; its
    runs are what is called instead: ``run(original, self, args, kwargs)``; its
    token is of this process and its forked children alone. It is of the very
    type of modules: older compilers follow no other.
    """
    gate: Any = types.ModuleType(GATE)
    gate.is_compiling = is_compiling
    gate.originals = []
    gate.runs = []
    gate.token = os.urandom(12).hex()
    return gate


def own_code(code: types.CodeType) -> types.CodeType:
    """The code of the original in what a trampoline is made of; else code itself."""
    if GATE not in code.co_names:
        return code
    held = [c for c in code.co_consts if isinstance(c, types.CodeType)
            and c.co_firstlineno == code.co_firstlineno and c.co_name == code.co_name]
    return held[0] if len(held) == 1 else code


def trampoline(function: Function, number: int,
               token: str) -> Optional[types.CodeType]:
    """Code with function's parameters that goes through entry number of the gate.

    token: of the gate. None for a function that is no plain one or has no first
    parameter.
    """
    code = function.__code__
    plain = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE
                                 | inspect.CO_ASYNC_GENERATOR)
    takes_self = code.co_argcount or code.co_flags & inspect.CO_VARARGS
    if not plain or not takes_self:
        return None
    code = own_code(code)
    parts = _parameters(code)
    parts.update(cells=", ".join(code.co_freevars), name="function", gate=GATE,
                 keep=f"if 0: {', '.join(code.co_freevars)}" if code.co_freevars
                 else "pass",
                 number=str(number), local=_unused(code), token=token, own=_OWN,
                 title=code.co_name, closure=_closure(code))
    space: dict[str, Any] = {}
    tree = ast.parse(_SOURCE.format(**parts))
    for node in ast.walk(tree):         # all of it is the function's first line
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = 1   # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = 0   # type: ignore[attr-defined]
    exec(compile(tree, "", "exec"), space)  # noqa: S102 - of parameter names only
    made: types.CodeType = space["make"](*[None] * len(code.co_freevars)).__code__
    if made.co_freevars != code.co_freevars:
        return None
    consts = tuple(code if const == _OWN else const for const in made.co_consts)
    cells = [c for c in made.co_consts if isinstance(c, types.CodeType)]
    if any(inner.co_freevars != code.co_freevars for inner in cells):
        return None
    looks = {"co_filename": code.co_filename, "co_firstlineno": code.co_firstlineno,
             "co_name": code.co_name}
    if hasattr(code, "co_qualname"):
        looks["co_qualname"] = code.co_qualname
    return made.replace(co_consts=consts, **looks)  # type: ignore[arg-type]


def _closure(code: types.CodeType) -> str:
    """An expression for the cells of the function that code is running in."""
    if not code.co_freevars:
        return "None"
    return f"(lambda: ({', '.join(code.co_freevars)},)).__closure__"


def _parameters(code: types.CodeType) -> dict[str, str]:
    """The parameters of a function, as declared and as passed on."""
    names, count = code.co_varnames, code.co_argcount
    positional = list(names[:count])
    only = list(names[count:count + code.co_kwonlyargcount])
    rest = list(names[count + len(only):])
    star = [f"*{rest.pop(0)}"] if code.co_flags & inspect.CO_VARARGS else []
    stars = [f"**{rest.pop(0)}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    declared = positional[:]
    if code.co_posonlyargcount:
        declared.insert(code.co_posonlyargcount, "/")
    declared += star or (["*"] if only else [])
    declared += only + stars
    keywords = [f"{name}={name}" for name in only] + stars
    passed = positional + star
    others = passed[1:]
    if not positional:                  # self is the first of *args
        first, others = f"{star[0][1:]}[0]", [f"{star[0]}[1:]"]
    else:
        first = positional[0]
    return {"parameters": ", ".join(declared), "first": first,
            "positional": "".join(f"{item}, " for item in others),
            "keywords": ", ".join(keywords), "passed": ", ".join(passed + keywords)}


def _unused(code: types.CodeType) -> str:
    name = "gate"
    while name in code.co_varnames + code.co_freevars:
        name += "_"
    return name


def twin(function: Function) -> Function:
    """A function that does what this one does now, whatever becomes of it.

    If its code is a trampoline of another process, what that one's original does.
    """
    code = own_code(function.__code__)
    made = Function(code, function.__globals__, function.__name__,
                    function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    return made


class Patches:
    """The functions patched so far, each once, and how to undo them."""

    def __init__(self, is_compiling: Callable[[], bool]) -> None:
        self._gate = _gate(is_compiling)
        self._done: dict[int, tuple[Function, types.CodeType, types.CodeType]] = {}
        sys.modules[GATE] = self._gate

    def find(self, cls: type, name: str) -> Optional[Function]:
        """The plain function that cls.name is, if it is one."""
        for base in cls.__mro__:
            if name in base.__dict__:
                found = base.__dict__[name]
                return found if isinstance(found, Function) else None
        return None

    def replace(self, cls: type, name: str, run: Run) -> bool:
        """Route cls.name through ``run(original, self, args, kwargs)``."""
        function = self.find(cls, name)
        return function is not None and self.route(function, run)

    def route(self, function: Function, run: Run) -> bool:
        """Route a function through ``run(original, first, args, kwargs)``."""
        known = self._done.get(id(function))
        if known is not None and function.__code__ is known[2]:
            return True
        code = trampoline(function, len(self._gate.runs), self._gate.token)
        if code is None:
            return False
        self._done[id(function)] = (function, function.__code__, code)
        self._gate.originals.append(twin(function))
        self._gate.runs.append(run)
        function.__code__ = code
        return True

    def restore(self, cls: type, name: str) -> None:
        """Give a function its own code back, unless somebody changed it since."""
        function = self.find(cls, name)
        if function is not None and id(function) in self._done:
            _, own, made = self._done.pop(id(function))
            if function.__code__ is made:
                function.__code__ = own

    def undo(self) -> None:
        """Give every function its own code back."""
        for function, own, made in self._done.values():
            if function.__code__ is made:
                function.__code__ = own
        self._done.clear()
