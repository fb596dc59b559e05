"""Code that is not the job's: Python's own library, torch, NumPy and the shim."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

import torch

_PATHS = tuple(
    os.path.join(os.path.realpath(folder), "") for folder in
    (os.path.dirname(torch.__file__), os.path.dirname(__file__)))
_LIBRARIES = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_PACKAGES = ("site-packages", "dist-packages")
_ROOTS = {"torch", "numpy", "torchgen", "functorch", "ckptshim", "builtins", "triton",
          "sympy", "importlib"}
_files: dict[str, bool] = {}


def is_foreign_file(name: str) -> bool:
    """Whether a source file belongs to torch, Python's library or the shim."""
    known = _files.get(name)
    if known is None:
        known = _files[name] = _look_at(name)
    return known


def is_own_file(name: str) -> bool:
    """Whether a source file is the shim's."""
    return name.startswith(_PATHS[1])


def _look_at(name: str) -> bool:
    if name.startswith("<frozen") or name == "<__array_function__ internals>":
        return True
    if name.startswith(_PATHS):
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and name.startswith(os.path.dirname(numpy.__file__ or "?")):
        return True
    return name.startswith(_LIBRARIES) and not any(p in name for p in _PACKAGES)


def is_foreign(scope: dict[str, Any]) -> bool:
    """Whether a module's dictionary is one of theirs."""
    root = str(scope.get("__name__", "")).partition(".")[0]
    if root in _ROOTS:
        return True
    file = scope.get("__file__")
    return isinstance(file, str) and is_foreign_file(file)


def is_foreign_class(kind: type) -> bool:
    """Whether a class is one of theirs."""
    name = kind.__module__
    if not isinstance(name, str) or name.partition(".")[0] in _ROOTS:
        return True
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    return getattr(module, "__file__", "") is None or (
        not hasattr(module, "__file__") and name in sys.builtin_module_names
    ) or is_foreign(module.__dict__)
