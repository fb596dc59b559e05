"""Keeps torch.compile from compiling the shim's own functions.

A module that is compiled may be reached through the shim. Its frames then stand
where the first frame to compile is looked for: compiled, they would be compiled
anew whenever the shim's state changes. Skipped, what they call is compiled as
if they were not there.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Iterator, Optional

import torch


def hide() -> None:
    """Have every function of this package skipped, not what it calls."""
    skip = _skipper()
    if skip is None:
        return
    prefix = __name__.rpartition(".")[0] + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(prefix):
            for code in _codes_of(vars(module), module.__name__):
                skip(code)


def _skipper() -> Optional[Callable[[types.CodeType], None]]:
    """What marks code as skipped, without an import of the compiler."""
    evaluator: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    try:
        action = evaluator._FrameAction
        strategy = evaluator._FrameExecStrategy(action.SKIP, action.DEFAULT)
        mark = evaluator.set_code_exec_strategy
        return lambda code: mark(code, strategy)
    except AttributeError:              # an older torch
        found: Optional[Callable[[types.CodeType], None]]
        found = getattr(evaluator, "skip_code", None)
        return found


def _codes_of(space: Any, home: str) -> Iterator[types.CodeType]:
    """The code of the functions and classes that a module defines."""
    for value in list(space.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if getattr(value, "__module__", None) != home:
            continue
        if isinstance(value, types.FunctionType):
            yield from _nested(value.__code__)
        elif isinstance(value, type):
            yield from _codes_of(vars(value), home)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
