"""Candidates: the modules of a root whose calls may be dropped.

Names are those that ``named_modules()`` of the root gives. A module that can
never be a candidate is listed with the reason.
"""

from __future__ import annotations

import re
import types
from typing import Any, Callable, Iterator, NamedTuple, Optional

import torch
from torch import nn
from torch.nn.utils import parametrize

from . import holders

NVTX = "nvtx"
_NAMES = "re:"

_unimplemented: Any = nn.Module.forward


class Candidate(NamedTuple):
    """A module, its dotted name, and why it is none after all (None: it is)."""

    name: str
    module: nn.Module
    reason: Optional[str] = None


def find(root: nn.Module, setting: str) -> list[Candidate]:
    """The candidates that a value of CKPT_BLOCKS selects in a root before it runs.

    Where a regular expression matches no name that the root gives, the names that a
    module which holds the root would give are tried: the job may call its model's
    parts, or their methods, and never the model.

    Raises ValueError for a setting that cannot be read.
    """
    if setting == NVTX:
        return []           # ranges.py finds them, while they run
    choose = selector(setting)
    if choose is None:
        found = _once(_auto(root))
        return found or [Candidate("", root, barred(root))] * _has_parts(root)
    found = outermost(root, choose)
    if not found and setting.startswith(_NAMES):
        name = holders.name_of(root)
        if name:
            found = outermost(root, choose, name)
    return found


Choice = Callable[[str, nn.Module], bool]


def selector(setting: str) -> Optional[Choice]:
    """The test that a setting stands for; None for ``auto``.

    Raises ValueError for a setting that cannot be read.
    """
    form, colon, rest = setting.partition(":")
    if setting == "auto":
        return None
    if setting.startswith(_NAMES):
        try:
            search = re.compile(rest).search
        except re.error as error:
            raise ValueError(f"CKPT_BLOCKS: {rest!r} is not a regular "
                             f"expression: {error}") from None
        return lambda name, module: search(name) is not None
    if form == "class" and rest:
        wanted = {part.strip() for part in rest.split(",")}
        return lambda name, module: not wanted.isdisjoint(_class_names(module))
    raise ValueError(f"CKPT_BLOCKS: {setting!r} is not one of auto, nvtx, re:REGEX, "
                     "class:NAME[,NAME]")


def check(setting: str) -> None:
    """Raise ValueError for a setting that cannot be read."""
    if setting != NVTX:
        selector(setting)


def open(candidate: Candidate) -> list[Candidate]:
    """The candidates in place of one that is too large or cannot be dropped.

    The members of the stacks inside it; else its parts; else its layers that
    have parameters. Empty for a layer.
    """
    name, module, _ = candidate
    if is_opaque(module):
        return []
    found = [c for c in _once(_below(name, module)) if c.module is not module]
    if not found:
        found = _once(_parts(name, module))
    return found or _once(_layers(name, module))


def is_stack(module: nn.Module) -> bool:
    """Whether a list inside it holds several blocks, each with parts of its own."""
    if is_opaque(module):
        return False
    if (_is_list(module) or isinstance(module, nn.Sequential)) \
            and len(_members("", module)) > 1:
        return True
    return any(is_stack(inner) for _, inner in _children("", module))


def barred(module: nn.Module) -> Optional[str]:
    """Why a module's forward cannot be replaced in its class; None if it can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    if _is_compiled(module):
        return "compiled"
    if "forward" in module.__dict__:
        return "instance_forward"
    plain = isinstance(_class_forward(module), types.FunctionType)
    return None if plain else "instance_forward"


# -- the automatic rule ------------------------------------------------------

def _auto(root: nn.Module) -> list[Candidate]:
    if is_opaque(root):
        return [Candidate("", root, barred(root))]
    return _below("", root)


def _below(name: str, module: nn.Module) -> list[Candidate]:
    """The candidates in a module: the members of the first stack on each path.

    A stack none of whose members has parts makes the module that calls it the
    candidate, unless there are others inside.
    """
    found: list[Candidate] = []
    for inner_name, inner in _children(name, module):
        if isinstance(module, nn.Sequential):
            found += _member(inner_name, inner)
        elif _is_list(inner):
            found += _members(inner_name, inner)
        elif isinstance(inner, nn.RNNBase):
            found.append(Candidate(inner_name, inner, barred(inner)))
        elif is_opaque(inner):
            found.append(Candidate(inner_name, inner, barred(inner)))
        else:
            found += _below(inner_name, inner)
    stacked = isinstance(module, nn.Sequential) or any(
        _is_list(inner) for _, inner in _children(name, module))
    if stacked and not found and name:
        return [Candidate(name, module, barred(module))]
    return found


def _members(name: str, stack: nn.Module) -> list[Candidate]:
    return [c for inner_name, inner in _children(name, stack)
            for c in _member(inner_name, inner)]


def _member(name: str, module: nn.Module) -> list[Candidate]:
    """What one member of a stack contributes."""
    if _is_list(module):
        return _members(name, module)
    wrapped = _unwrapped(name, module)
    if wrapped is not None:
        return _member(*wrapped)
    reason = barred(module)
    if is_opaque(module):
        return [Candidate(name, module, reason)]
    if not _has_parts(module):
        return [Candidate(name, module, reason)] * isinstance(module, nn.RNNBase)
    if reason is None:
        return [Candidate(name, module)]
    inside = [c for c in _below(name, module) if c.module is not module]
    return [Candidate(name, module, reason), *(inside or _parts(name, module))]


def _parts(name: str, module: nn.Module) -> list[Candidate]:
    """The modules that a module calls and that have parts of their own."""
    found: list[Candidate] = []
    for inner_name, inner in _children(name, module):
        wrapped = _unwrapped(inner_name, inner)
        if wrapped is not None:
            inner_name, inner = wrapped
        if _is_list(inner):
            found += _parts(inner_name, inner)
        elif is_opaque(inner) or _has_parts(inner) or _recurrent(inner):
            found.append(Candidate(inner_name, inner, barred(inner)))
    if not any(c.reason is None for c in found):
        return []
    return found


def _layers(name: str, module: nn.Module) -> list[Candidate]:
    """The layers with parameters, however many lists lie between."""
    found: list[Candidate] = []
    for inner_name, inner in _children(name, module):
        if _is_list(inner):
            found += _layers(inner_name, inner)
        elif next(inner.parameters(), None) is not None:
            found.append(Candidate(inner_name, inner, barred(inner)))
    return found


# -- kinds of modules --------------------------------------------------------

def _children(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules directly inside, with their dotted names."""
    prefix = f"{name}." if name else ""
    for key, child in module._modules.items():
        if child is None or (key == "parametrizations"
                             and parametrize.is_parametrized(module)):
            continue
        yield prefix + key, child


def _has_parts(module: nn.Module) -> bool:
    return next(_children("", module), None) is not None


def _is_list(module: nn.Module) -> bool:
    """A ModuleList, a ModuleDict or any other module that is never called."""
    return (_class_forward(module) is _unimplemented and not is_opaque(module)
            and "forward" not in module.__dict__)


def _class_forward(module: nn.Module) -> Any:
    """What stands in the class's dictionary, without binding it."""
    return next((base.__dict__["forward"] for base in type(module).__mro__
                 if "forward" in base.__dict__), None)


def _recurrent(module: nn.Module) -> bool:
    return isinstance(module, (nn.RNNBase, nn.RNNCellBase))


def _is_compiled(module: nn.Module) -> bool:
    return (getattr(module, "_compiled_call_impl", None) is not None
            or type(module).__name__ == "OptimizedModule")


def is_opaque(module: nn.Module) -> bool:
    """Nothing inside it is called by Python code that we may touch."""
    return isinstance(module, torch.jit.ScriptModule) or _is_compiled(module)


# Wrappers that only forward to one module, and the name they keep it under.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
}


def _unwrapped(name: str, module: nn.Module) -> Optional[tuple[str, nn.Module]]:
    key = _WRAPPERS.get(type(module).__name__)
    inner = module._modules.get(key) if key is not None else None
    return None if inner is None else (f"{name}.{key}" if name else str(key), inner)


def _class_names(module: nn.Module) -> set[str]:
    """Its class's name, also without what torch put before it at run time."""
    name = type(module).__name__
    return {name} | {name[len(p):] for p in ("Parametrized", "FSDP")
                     if name.startswith(p) and name[len(p):] in
                     [base.__name__ for base in type(module).__mro__[1:]]}


# -- choosing by name --------------------------------------------------------

def outermost(root: nn.Module, choose: Choice, prefix: str = "") -> list[Candidate]:
    """The modules chosen, without those inside another that is chosen. prefix: the
    root's own name.
    """
    found: list[Candidate] = []
    for name, module in root.named_modules(prefix=prefix):
        inside = any(name.startswith(f"{c.name}.") for c in found
                     if c.reason is None or is_opaque(c.module))
        if (module is not root and not inside and not _is_list(module)
                and choose(name, module)):
            found.append(Candidate(name, module, barred(module)))
    if not found and choose(prefix, root):
        found.append(Candidate(prefix, root, barred(root)))
    return found


def _once(candidates: list[Candidate]) -> list[Candidate]:
    """Shared modules under the first of their names only."""
    seen: dict[int, Candidate] = {}
    for candidate in candidates:
        seen.setdefault(id(candidate.module), candidate)
    return list(seen.values())
