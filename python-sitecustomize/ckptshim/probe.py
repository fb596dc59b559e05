"""The wide look at a candidate's first forward.

Before a block may be recomputed even for a proof, one of its forwards is
watched for effects that a note does not put back: they would be seen twice.
A look compares, before and after, what the forward can reach: its arguments,
the block's modules and their attributes, and the globals, closures and classes
that the code it runs names; and it traces what leaves the process.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Callable, Optional

import torch

from . import attributes, contents, digest, interrupts, modes, outside, structures
from .reach import ARGUMENT, GLOBAL, MODULE
from .tensors import tensors_in
from .tracer import Tracer
from .tree import STANDARD
from .watch import Watch

_HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                "_backward_pre_hooks")
_MISSING = object()

# Which finding names the reason, if there are several.
_ORDER = ("collective", "mutates_arguments", "mutates_parameters", "global_effect",
          "mutates_python_state")
_REASONS = {ARGUMENT: "mutates_arguments", GLOBAL: "global_effect",
            MODULE: "mutates_python_state"}


class Look:
    """Watches one forward: ``with look: module.forward(*args, **kwargs)``.

    Attributes:
        changing: dotted names of the buffers whose contents changed.
        copied: ids of the objects among the arguments that a recompute gets
            copies of (``Note.copied``); to be set before the forward ends.
        generators: ids of the random generators that a recompute finds where they
            stood (``Note.generators``); the same.
        wants_copies: arguments changed that a deep note would copy.
        outside: what the code leads to, for the block's notes.
        lasting: something was found that a later look may miss and that may come
            again all the same: a file or a tensor was written to.
        detail: a few words on what was found first, "" if nothing was.
    """

    def __init__(self, module: torch.nn.Module, forward: Callable[..., Any],
                 args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.changing: set[str] = set()
        self.detail = ""
        self.copied: frozenset[int] = frozenset()
        self.generators: frozenset[int] = frozenset()
        self.wants_copies = False
        self.outside = outside.NOTHING
        self.lasting = False
        self._found: dict[str, str] = {}
        self._inputs = (forward, args, kwargs)
        self._module: Optional[torch.nn.Module] = module
        self._tracer: Optional[Tracer] = None

    def __enter__(self) -> "Look":
        module = self._module
        assert module is not None
        try:
            with torch._C.DisableTorchFunction():
                self._begin(module)
        except BaseException as error:
            if not isinstance(error, Exception) or interrupts.is_the_jobs(error):
                self.__exit__(type(error))
                raise
            self._find("global_effect", f"it cannot be watched: {error}")
        return self

    def _begin(self, module: torch.nn.Module) -> None:
        forward, args, kwargs = self._inputs
        traced = Tracer.possible()
        self._watch = watch = Watch(static=not traced)
        self._parts = [_Part(name, inner) for name, inner in module.named_modules()]
        watch.modules = {id(part.module): part.module for part in self._parts}
        for inert in (watch, self, self._parts, watch.modules):
            watch.skip(inert)
        for i, value in enumerate(args):
            watch.see(value, ARGUMENT, f"argument {i}")
        for name, value in kwargs.items():
            watch.see(value, ARGUMENT, name)
        if watch.iterator is not None:
            self._find("mutates_arguments", f"{watch.iterator} can be read only once")
        for part in self._parts:
            part.watch(watch)
        watch.see(forward, GLOBAL, "forward")
        for table in _global_hooks():
            watch.see(list(table.values()), GLOBAL, "a hook of every module")
        self._modes = modes.take()
        self._numbers = _sequence_numbers()
        self._tracer = Tracer(watch.names)
        if traced:
            self._tracer.start()

    def __exit__(self, kind: Optional[type], *_: Any) -> None:
        try:
            try:
                tracer, self._tracer = self._tracer, None
                if tracer is not None:
                    tracer.stop()
                    if kind is None:
                        with torch._C.DisableTorchFunction():
                            self._end(tracer)
            finally:
                self._let_go()
        except Exception as error:
            if interrupts.is_the_jobs(error):
                raise
            self._find("global_effect", f"it cannot be watched: {error}")

    def _let_go(self) -> None:
        watch = getattr(self, "_watch", None)
        for name in ("_watch", "_parts", "_inputs", "_module", "_modes"):
            self.__dict__.pop(name, None)
        if watch is not None:
            watch.close()

    def _end(self, tracer: Tracer) -> None:
        self.outside = outside.of([part.module for part in self._parts
                                   if not part.scripted], [self._inputs[0]])
        if tracer.collective or _sequence_numbers() != self._numbers:
            self._find("collective", tracer.collective or "a process group was used")
        if tracer.effect:
            self._find("global_effect", tracer.effect)
            self.lasting = tracer.lasting
        if modes.changed(self._modes):
            self._find("global_effect", "a flag of torch")
        scripts = [part.module for part in self._parts if part.scripted]
        if any([_first_run(script) for script in scripts + self._watch.scripts]):
            self._find("global_effect", "TorchScript specialises in its first runs")
        for part in self._parts:
            for reason, what in part.changes(self.changing):
                self._find(reason, what)
        for origin, path, value, lasting in self._watch.changes():
            if id(value) in self.generators or (
                    origin == ARGUMENT and self._is_spared(value)):
                continue
            self.lasting |= lasting and origin != ARGUMENT
            self._find(_REASONS[origin], f"{origin} {path}"
                       if not path.startswith("argument") else path)

    def _is_spared(self, value: Any) -> bool:
        """Whether a recompute changes a copy of this argument, or could."""
        if id(value) in self.copied:
            return True
        self.wants_copies |= structures.can_copy(value)
        return False

    def _find(self, reason: str, detail: str) -> None:
        self._found.setdefault(reason, detail)

    def verdict(self) -> Optional[str]:
        """Why the block must not be recomputed; None if nothing speaks against it."""
        for reason in _ORDER:
            if reason in self._found:
                self.detail = self._found[reason]
                return reason
        return None


class _Part:
    """One module inside the block, before the forward."""

    def __init__(self, name: str, module: torch.nn.Module) -> None:
        own = module.__dict__
        self.prefix = f"{name}." if name else ""
        self.module = module
        self.scripted = isinstance(module, torch.jit.ScriptModule)
        self.attributes = {} if self.scripted else {
            k: v for k, v in own.items() if k not in STANDARD}
        self.items = {k: v.copy() for k, v in self.attributes.items()
                      if type(v) in attributes.CONTAINERS}
        self.parameters, self.buffers, self.children = self._tables()
        self.hooks = [dict(own.get(table, ())) for table in _HOOK_TABLES]
        self.states: dict[str, digest.TensorState] = {}
        self.contents: dict[str, tuple[int, Any]] = {}

    def _tables(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Parameters, buffers and modules directly inside."""
        module = self.module
        if self.scripted:               # its tables lie in C++
            return (dict(module.named_parameters(recurse=False)),
                    dict(module.named_buffers(recurse=False)), {})
        return dict(module._parameters), dict(module._buffers), dict(module._modules)

    def watch(self, watch: Watch) -> None:
        """Remember the state of tensors, and what attributes refer to."""
        for key, tensor in self.parameters.items():
            if tensor is not None:
                watch.skip(tensor)
                self.states[key] = digest.TensorState(tensor, watch.budget)
        for key, tensor in self.buffers.items():
            if tensor is not None:
                watch.skip(tensor)
                self.contents[key] = tensor._version, contents.take(tensor)
        for key, value in self.attributes.items():
            path = self.prefix + key
            if key in self.items:
                watch.skip(value)       # put back by a note; what is inside is not
                inside = value.values() if isinstance(value, dict) else value
                watch.see(list(inside), MODULE, path)
            elif attributes.is_generator(value):
                watch.skip(value)
            else:
                watch.see(value, MODULE, path)
        for table in self.hooks:
            watch.see(list(table.values()), GLOBAL, f"a hook on {self.prefix[:-1]}")
        watch.see(type(self.module), GLOBAL, type(self.module).__qualname__)

    def changes(self, changing: set[str]) -> list[tuple[str, str]]:
        """Reasons and details of what a note would not put back.

        Adds to changing the buffers that were written to.
        """
        own = self.module.__dict__
        found = [] if self.scripted else self._attribute_changes(own)
        for key, state in self.states.items():
            tensor = self.parameters[key]
            assert tensor is not None
            if state.written(tensor) or state.dressed(tensor):
                found.append(("mutates_parameters", self.prefix + key))
        for key, (version, held) in self.contents.items():
            tensor = self.buffers[key]
            if tensor._version != version or not contents.same(tensor, held):
                if contents.can_put(tensor):
                    changing.add(self.prefix + key)
                else:
                    found.append(("mutates_python_state", self.prefix + key))
        parameters, buffers, children = self._tables()
        if (not digest.same_dict(self.parameters, parameters)
                or buffers.keys() != self.buffers.keys()
                or not digest.same_dict(self.children, children)):
            found.append(("mutates_python_state",
                          f"{self.prefix}: a parameter, buffer or module came or went"))
        if self.hooks != [dict(own.get(table, ())) for table in _HOOK_TABLES]:
            found.append(("mutates_python_state", f"{self.prefix}: hooks"))
        return found

    def _attribute_changes(self, own: dict[str, Any]) -> list[tuple[str, str]]:
        """Tensors that were built and kept. Everything else is put back, and a table
        that grows by one without a history is: its recompute builds it again.
        """
        found = []
        for key, now in own.items():
            if key in STANDARD:
                continue
            before = self.attributes.get(key)
            if before is None and now is not None and _holds_tensor(now):
                found.append(self.prefix + key)
            elif key in self.items and now is before and isinstance(now, dict):
                held = self.items[key]
                found += [f"{self.prefix}{key}[{k!r}]" for k, v in now.items()
                          if k not in held and _holds_history(v)]
        return [("mutates_python_state", f"tensor kept in {name}") for name in found]


# TorchScript code that was met in a look before. It runs as written at first and
# as optimised later, with other roundings: a recompute must not advance that.
_ran: dict[int, Any] = {}


def _first_run(script: Any) -> bool:
    known = _ran.get(id(script))
    if known is not None and known() is script:
        return False
    _ran[id(script)] = weakref.ref(script)
    return True


def _holds_tensor(value: Any) -> bool:
    return next(iter(tensors_in(value)), None) is not None


def _holds_history(value: Any) -> bool:
    return any(tensor.requires_grad for tensor in tensors_in(value))


def _global_hooks() -> list[Any]:
    registry: Any = torch.nn.modules.module
    return [getattr(registry, name) for name in
            ("_global_forward_hooks", "_global_forward_pre_hooks",
             "_global_backward_hooks") if hasattr(registry, name)]


def _sequence_numbers() -> list[int]:
    """How many collectives each process group has issued."""
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(distributed, "_world", None)
    numbers: list[int] = []
    for group in list(world.pg_map) if world is not None else ():
        try:
            numbers.append(group._get_sequence_number_for_group())
        except RuntimeError:            # a backend that does not count
            numbers.append(-1)
    return numbers
