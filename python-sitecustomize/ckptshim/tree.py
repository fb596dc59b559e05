"""The state of a block's modules: taken before a forward, put back for another.

A *plan* says where everything lies; it is made once and stays valid while the
same modules have the same attributes. A *tree* is one snapshot: flat lists in
the order of the plan, so that taking one costs a few microseconds. Nothing here
refers to a module strongly, and a tree kept for later holds aliases of tensors
that have a history: else a module that keeps its last output would chain every
iteration to the one before.
"""

from __future__ import annotations

import operator
import weakref
from types import FunctionType
from typing import Any, Iterable, Optional

import torch

from . import attributes, contents, serial, structures
from . import tensors as storages

Form = tuple[Any, ...]
Hooks = dict[int, list[dict[Any, Any]]]
# Attributes, tensors, children, hooks; flags of scripted modules.
Reading = tuple[list[Any], list[Any], list[Any], Hooks, list[bool]]

_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks",
           "_forward_pre_hooks")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
_registry: Any = torch.nn.modules.module
_GLOBAL_HOOKS = (_registry._global_forward_pre_hooks, _registry._global_forward_hooks)
STANDARD = (frozenset(torch.nn.Module().__dict__)
            - {"training", "_is_full_backward_hook"})


class Stale(Exception):
    """The plan no longer describes the modules."""


class Part:
    """Where one module's state lies."""

    __slots__ = ("ref", "order", "keys", "parameters", "buffers", "children", "row")

    def __init__(self, module: torch.nn.Module) -> None:
        own = module.__dict__
        self.ref = weakref.ref(module)
        self.order = tuple(own)
        self.keys = tuple(k for k in own if k not in STANDARD)
        if len(self.keys) < 2:
            self.keys = ("training", "_is_full_backward_hook")
        self.parameters = tuple(own["_parameters"])
        self.buffers = tuple(own["_buffers"])
        self.children = {name: None if child is None else weakref.ref(child)
                         for name, child in own["_modules"].items()}
        # What the hot loop unpacks. Most tables are empty: one look at all of those.
        empty = [name for name in _TABLES if not own[name]]
        empty *= 2 if len(empty) == 1 else 1    # for a getter that makes a tuple
        self.row = (self.ref, len(own), operator.itemgetter(*self.keys),
                    operator.itemgetter(*empty) if empty else _nothing,
                    self.parameters, self.buffers, len(self.children))

    def hooked(self, own: dict[str, Any]) -> bool:
        """Whether there are hooks on the module."""
        return bool(own["_forward_hooks"] or own["_forward_pre_hooks"])


def _nothing(own: dict[str, Any]) -> tuple[Any, ...]:
    return ()


class Scripted:
    """A TorchScript module. Its state lies in C++: flag and buffers are kept."""

    __slots__ = ("ref", "buffers")

    def __init__(self, name: str, module: torch.nn.Module) -> None:
        prefix = f"{name}." if name else ""
        self.ref = weakref.ref(module)
        self.buffers = [prefix + key for key, _ in module.named_buffers(recurse=False)]

    def read(self) -> tuple[bool, list[torch.Tensor]]:
        """Whether it trains, and its own buffers."""
        module = self.ref()
        if module is None:
            raise Stale
        return module.training, list(module.buffers(recurse=False))

    def parameters(self) -> list[torch.Tensor]:
        """Its own parameters."""
        module = self.ref()
        return [] if module is None else list(module.parameters(recurse=False))

    def put(self, training: bool) -> None:
        """Set the training flag if it differs."""
        module = self.ref()
        if module is not None and module.training != training:
            module.training = training


class Plan:
    """Where the state of a block and everything inside it lies.

    Attributes:
        buffers: dotted name of every buffer, and its place among the tensors. What is
            small and not trained counts as one.
        small: the names of those that are remembered even if no forward changes them.
        training: the places of the training flags among the values.
        bytes: the size of all parameters and buffers.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.parts: list[Part] = []
        self.buffers: dict[str, int] = {}
        self.small: set[str] = set()
        self.names: list[str] = []
        self.training: list[int] = []
        self.scripted: list[Scripted] = []
        children: list[int] = []
        hooked = False
        values = 0
        for name, inner in module.named_modules():
            if isinstance(inner, torch.jit.ScriptModule):
                self.scripted.append(Scripted(name, inner))
                continue
            part = Part(inner)
            self.parts.append(part)
            prefix = f"{name}." if name else ""
            for key in part.parameters:
                self._add("parameter", prefix + key, inner._parameters[key])
            for key in part.buffers:
                self._add("buffer", prefix + key, inner._buffers[key])
            children += map(id, inner._modules.values())
            hooked |= part.hooked(inner.__dict__)
            if "training" in part.keys:
                self.training.append(values + part.keys.index("training"))
            values += len(part.keys)
        for script in self.scripted:
            for name in script.buffers:
                self._add("buffer", name, None)
        self.bytes = _bytes(module)
        self.children = children
        self.hooked = hooked
        self.rows = [part.row for part in self.parts]
        self.pointers: list[int] = []       # of the tensors, when layouts were taken
        self.layouts: list[storages.Layout] = []
        self.types: list[type] = []
        self.special: list[tuple[int, attributes.Taker]] = []
        self.functions: list[int] = []      # the places of those among the values

    def _add(self, kind: str, name: str, tensor: Optional[torch.Tensor]) -> None:
        small = (tensor is not None and contents.is_small(tensor)
                 and (kind == "buffer" or not tensor.requires_grad))
        if small:
            self.small.add(name)
        if small or kind == "buffer":
            self.buffers[name] = len(self.names)
        self.names.append(f"{kind} {name}")

    def read(self) -> Reading:
        """The hot loop: one pass over the modules' dictionaries.

        Raises:
            Stale: the modules have other attributes, tensors or children now.
        """
        values: list[Any] = []
        tensors: list[Any] = []
        children: list[Any] = []
        try:
            for ref, size, user, empty, parameters, buffers, kids in self.rows:
                own = ref().__dict__
                if len(own) != size or any(empty(own)):
                    raise Stale
                values += user(own)
                if parameters:
                    table = own["_parameters"]
                    if len(table) != len(parameters):
                        raise Stale
                    for name in parameters:
                        tensors.append(table[name])
                if buffers:
                    table = own["_buffers"]
                    if len(table) != len(buffers):
                        raise Stale
                    for name in buffers:
                        tensors.append(table[name])
                if kids:
                    children += own["_modules"].values()
        except (AttributeError, KeyError):
            raise Stale from None
        if [*map(id, children)] != self.children:
            raise Stale
        modes: list[bool] = []
        for script in self.scripted:
            training, own_buffers = script.read()
            modes.append(training)
            tensors += own_buffers
        return values, tensors, children, self._hooks() if self.hooked else {}, modes

    def _hooks(self) -> Hooks:
        hooks: Hooks = {}
        for part in self.parts:
            module = part.ref()
            if module is not None and part.hooked(module.__dict__):
                own = module.__dict__
                hooks[id(own)] = [dict(own[name]) for name in _HOOKS]
        return hooks

    def lie(self, tensors: list[torch.Tensor], pointers: list[int],
            ) -> list[storages.Layout]:
        """How tensors lie on their storages."""
        if pointers != self.pointers:
            self.layouts = [storages.Layout(t) for t in tensors]
            self.pointers = pointers
        return self.layouts

    def learn(self, types: list[type]) -> None:
        """Note which values need more than a reference."""
        self.special = [(i, f) for i, f in enumerate(map(attributes.taker, types))
                        if f is not None]
        self.functions = [i for i, kind in enumerate(types) if kind is FunctionType]
        self.types = types


class Memory:
    """Where tensors lie, kept from being given back.

    A job may give a parameter other memory (``p.data = ...``) between a forward
    and its backward, which autograd does not take for a change: what it has saved
    is still computed from the old.
    """

    __slots__ = ("storages", "_tensors", "_pointers", "_layouts")

    def __init__(self, plan: Plan, tensors: list[torch.Tensor]) -> None:
        self.storages = [*map(storages.storage_of, tensors)]
        self._tensors = tensors
        self._pointers = [*map(storages.pointer_of, tensors)]
        self._layouts = plan.lie(tensors, self._pointers)

    def enter(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Let the tensors lie there; those that lay elsewhere, and how they did."""
        now = [*map(storages.pointer_of, self._tensors)]
        if now == self._pointers:
            return []
        moved = []
        for tensor, pointer, then, storage, layout in zip(
                self._tensors, now, self._pointers, self.storages, self._layouts):
            if (pointer != then and tensor.dtype == layout.dtype
                    and tensor.device == storage.device):
                moved.append((tensor, tensor.data))
                tensor.data = layout.on(storage)
        return moved


class Tree:
    """One snapshot.

    Attributes:
        values: the attributes, module by module (see ``attributes``).
        tensors: the parameters and buffers, module by module; None where one is.
        solid: those that are not None.
        form: the training flags of all modules, and what hooks and functions there are.
        bare: references are all there is to it: no hooks, nothing special.
        memory: of the solid ones, in a past; None where some have none.

    past: it may be kept for long; False: it is put back soon, as it was.
    """

    __slots__ = ("plan", "values", "tensors", "solid", "gradients", "hooks",
                 "children", "modes", "form", "bare", "memory")

    def __init__(self, plan: Plan, past: bool) -> None:
        self.plan = plan
        values, tensors, children, self.hooks, self.modes = plan.read()
        self.form: Form = (
            *[bool(values[i]) for i in plan.training], *self.modes)
        if self.hooks:      # with other hooks or functions it is another forward
            self.form += tuple(serial.number(hook) for tables in self.hooks.values()
                               for table in tables[:2] for hook in table.values())
        if any(_GLOBAL_HOOKS):
            self.form += tuple(serial.number(hook) for table in _GLOBAL_HOOKS
                               for hook in table.values())
        types = list(map(type, values))
        if types != plan.types:
            plan.learn(types)
        if plan.functions:
            self.form += tuple(serial.number(values[i]) for i in plan.functions)
        self.bare = not self.hooks
        for place, take in plan.special:
            value = values[place]
            values[place] = held = take(value, past)
            self.bare &= held is value
        if past and plan.buffers:
            for place in plan.buffers.values():
                tensor = tensors[place]
                if tensor is not None and tensor.grad_fn is not None:
                    tensors[place] = structures.alias(tensor)
        self.values, self.tensors = values, tensors
        self.solid = [t for t in tensors if t is not None]
        self.gradients = [t.requires_grad for t in self.solid]
        self.memory: Optional[Memory] = None
        if past:
            try:
                self.memory = Memory(plan, self.solid)
            except (RuntimeError, NotImplementedError):
                pass
        # Never hold a module for long.
        self.children: Optional[list[Any]] = None if past else children

    def agrees(self) -> bool:
        """Whether the modules (contents of buffers apart) are what they were."""
        if self.bare:
            return self.unchanged() is not None
        try:
            return self.same(Tree(self.plan, past=False))
        except Stale:
            return False

    def unchanged(self) -> Optional[list[Any]]:
        """The modules inside if all of them are (contents of buffers apart) what
        they were; None if they are not or if that takes another tree to tell.
        """
        if not self.bare:
            return None
        try:
            values, tensors, children, hooks, modes = self.plan.read()
        except Stale:
            return None
        same = (all(map(operator.is_, values, self.values))
                and all(map(operator.is_, tensors, self.tensors))
                and not hooks and modes == self.modes
                and [t.requires_grad for t in self.solid] == self.gradients)
        return children if same else None

    def buffers(self, names: Optional[Iterable[str]]) -> list[torch.Tensor]:
        """The buffers of these names (None: all of them)."""
        places = self.plan.buffers
        if not places:
            return []
        chosen = places.values() if names is None else [
            places[name] for name in names if name in places]
        return [self.tensors[i] for i in chosen if self.tensors[i] is not None]

    def versions(self) -> dict[str, int]:
        """Of the buffers."""
        tensors = self.tensors
        return {name: tensors[place]._version
                for name, place in self.plan.buffers.items()
                if tensors[place] is not None and not tensors[place].is_inference()}

    def same(self, now: "Tree") -> bool:
        """Whether the modules (not the contents of buffers) agree with now."""
        return (now.plan is self.plan
                and all(map(operator.is_, self.tensors, now.tensors))
                and now.gradients == self.gradients and now.hooks == self.hooks
                and now.modes == self.modes
                and attributes.same(self.values, now.values))

    def addresses(self) -> set[int]:
        """The storages of the parameters and buffers."""
        found = (storages.addresses(self.solid) if self.memory is None
                 else storages.starts(self.memory.storages))
        for script in self.plan.scripted:
            found |= storages.addresses(script.parameters())
        return found

    def put(self) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
        """Make the modules what they were. Writes only what differs.

        Returns the dictionaries that gained or lost keys, with the order that
        they had.
        """
        values, tensors = iter(self.values), iter(self.tensors)
        disturbed = []
        for part in self.plan.parts:
            held = [next(values) for _ in part.keys]
            parameters = {name: next(tensors) for name in part.parameters}
            buffers = {name: next(tensors) for name in part.buffers}
            module = part.ref()
            if module is None:
                continue
            own = module.__dict__
            order = tuple(own)
            if attributes.put(own, part.keys, held, part.order):
                disturbed.append((own, order))
            _fill(own["_parameters"], parameters)
            _fill(own["_buffers"], buffers)
            _put_children(own["_modules"], part.children)
            self._put_hooks(own)
        for script, training in zip(self.plan.scripted, self.modes):
            script.put(training)
        for tensor, wanted in zip(self.solid, self.gradients):
            if tensor.requires_grad != wanted and tensor.is_leaf:
                tensor.requires_grad_(wanted)
        return disturbed

    def _put_hooks(self, own: dict[str, Any]) -> None:
        held = self.hooks.get(id(own))
        if held is not None:
            for name, table in zip(_HOOKS, held):
                _fill(own[name], table)
        elif own["_forward_hooks"] or own["_forward_pre_hooks"]:
            for name in _HOOKS:
                own[name].clear()


def _bytes(module: torch.nn.Module) -> int:
    return sum(t.numel() * t.element_size()
               for t in (*module.parameters(), *module.buffers()))


def _fill(table: Any, wanted: dict[Any, Any]) -> None:
    """Make a table's entries and their order those of wanted."""
    if len(table) == len(wanted) and all(
            a == b and x is y for (a, x), (b, y) in zip(table.items(), wanted.items())):
        return
    table.clear()
    table.update(wanted)


def _put_children(table: Any, wanted: dict[str, Any]) -> None:
    children = {name: ref and ref() for name, ref in wanted.items()}
    lost = any(ref is not None and children[name] is None
               for name, ref in wanted.items())
    if not lost:
        _fill(table, children)
