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
from typing import Any, Iterable, Optional

import torch

from . import attributes, contents, structures
from . import tensors as storages

Form = tuple[bool, ...]
Hooks = dict[int, list[dict[Any, Any]]]
# Attributes, tensors, children, hooks; flags of scripted modules.
Reading = tuple[list[Any], list[Any], list[Any], Hooks, list[bool]]

_HOT = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
STANDARD = (frozenset(torch.nn.Module().__dict__)
            - {"training", "_is_full_backward_hook"})


class Stale(Exception):
    """The plan no longer describes the modules."""


class Part:
    """Where one module's state lies."""

    __slots__ = ("ref", "size", "order", "keys", "parameters", "buffers",
                 "children", "row")

    def __init__(self, module: torch.nn.Module) -> None:
        own = module.__dict__
        self.ref = weakref.ref(module)
        self.size = len(own)
        self.order = tuple(own)
        self.keys = tuple(k for k in own if k not in STANDARD)
        if len(self.keys) < 2:
            self.keys = ("training", "_is_full_backward_hook")
        self.parameters = tuple(module._parameters)
        self.buffers = tuple(module._buffers)
        self.children = {name: None if child is None else weakref.ref(child)
                         for name, child in module._modules.items()}
        # What the hot loop unpacks.
        self.row = (self.ref, self.size, operator.itemgetter(*_HOT),
                    operator.itemgetter(*self.keys), self.parameters, self.buffers,
                    len(self.children))


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
        buffers: dotted name of every buffer, and its place among the tensors.
        training: the places of the training flags among the values.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.parts: list[Part] = []
        self.buffers: dict[str, int] = {}
        self.names: list[str] = []
        self.training: list[int] = []
        children: list[int] = []
        values = 0
        self.scripted: list[Scripted] = []
        for name, inner in module.named_modules():
            if isinstance(inner, torch.jit.ScriptModule):
                self.scripted.append(Scripted(name, inner))
                continue
            part = Part(inner)
            self.parts.append(part)
            prefix = f"{name}." if name else ""
            self.names += [f"parameter {prefix}{key}" for key in part.parameters]
            for key in part.buffers:
                self.buffers[prefix + key] = len(self.names)
                self.names.append(f"buffer {prefix}{key}")
            children += map(id, inner._modules.values())
            if "training" in part.keys:
                self.training.append(values + part.keys.index("training"))
            values += len(part.keys)
        for script in self.scripted:
            for buffer in script.buffers:
                self.buffers[buffer] = len(self.names)
                self.names.append(f"buffer {buffer}")
        self.children = children
        self.rows = [part.row for part in self.parts]
        self.types: list[type] = []
        self.special: list[tuple[int, attributes.Taker]] = []

    def learn(self, types: list[type]) -> None:
        """Note which values need more than a reference."""
        self.special = [(i, f) for i, f in enumerate(map(attributes.taker, types))
                        if f is not None]
        self.types = types


    def read(self) -> Reading:
        """The hot loop: one pass over the modules' dictionaries.

        Raises:
            Stale: the modules have other attributes, tensors or children now.
        """
        values: list[Any] = []
        tensors: list[Any] = []
        children: list[Any] = []
        hooks: Hooks = {}
        try:
            for ref, size, tables, user, parameters, buffers, kids in self.rows:
                own = ref().__dict__
                p, b, c, after, before = tables(own)
                if (len(own) != size or len(p) != len(parameters)
                        or len(b) != len(buffers) or len(c) != kids):
                    raise Stale
                values += user(own)
                for name in parameters:
                    tensors.append(p[name])
                for name in buffers:
                    tensors.append(b[name])
                if kids:
                    children += c.values()
                if after or before:
                    hooks[id(own)] = [dict(own[name]) for name in _HOOKS]
        except (AttributeError, KeyError):
            raise Stale from None
        if list(map(id, children)) != self.children:
            raise Stale
        modes: list[bool] = []
        for script in self.scripted:
            training, own_buffers = script.read()
            modes.append(training)
            tensors += own_buffers
        return values, tensors, children, hooks, modes


class Tree:
    """One snapshot.

    Attributes:
        values: the attributes, module by module (see ``attributes``).
        tensors: the parameters and buffers, module by module.
        contents: of the buffers asked for: the tensor and what it held.
        form: the training flags of all modules.
        bare: references are all there is to it: no hooks, nothing special.

    past: it may be kept for long; False: it is put back soon, as it was.
    """

    __slots__ = ("plan", "values", "tensors", "gradients", "hooks", "contents",
                 "children", "modes", "form", "bare")

    def __init__(self, plan: Plan, past: bool) -> None:
        self.plan = plan
        self.contents: list[tuple[torch.Tensor, Any]] = []
        values, tensors, children, self.hooks, self.modes = plan.read()
        self.form: Form = tuple(
            [bool(values[i]) for i in plan.training] + self.modes)
        types = list(map(type, values))
        if types != plan.types:
            plan.learn(types)
        self.bare = not (plan.special or self.hooks)
        for place, take in plan.special:
            values[place] = take(values[place], past)
        self.gradients = _gradients(tensors)
        if past:
            for place in plan.buffers.values():
                tensor = tensors[place]
                if tensor is not None and tensor.grad_fn is not None:
                    tensors[place] = structures.alias(tensor)
        self.values, self.tensors = values, tensors
        # Never hold a module for long.
        self.children: Optional[list[Any]] = None if past else children

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
                and _gradients(tensors) == self.gradients)
        return children if same else None

    def keep_contents(self, names: Optional[Iterable[str]]) -> None:
        """Remember what these buffers hold (None: all of them)."""
        places = self.plan.buffers
        chosen = places.values() if names is None else [
            places[name] for name in names if name in places]
        for place in chosen:
            tensor = self.tensors[place]
            if tensor is not None:
                self.contents.append((tensor, contents.take(tensor)))

    def same(self, now: "Tree") -> bool:
        """Whether the modules (not the contents of buffers) agree with now."""
        return (now.plan is self.plan
                and all(map(operator.is_, self.tensors, now.tensors))
                and now.gradients == self.gradients and now.hooks == self.hooks
                and now.modes == self.modes
                and attributes.same(self.values, now.values))

    def addresses(self) -> set[int]:
        """The storages of the parameters and buffers."""
        found = [t for t in self.tensors if t is not None]
        for script in self.plan.scripted:
            found += script.parameters()
        return storages.addresses(found)

    def put_contents(self) -> None:
        """Write the contents of buffers that differ."""
        for tensor, inside in self.contents:
            contents.put(tensor, inside)

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
        for tensor, wanted in zip(self.tensors, self.gradients):
            if (tensor is not None and tensor.requires_grad != wanted
                    and tensor.is_leaf):
                tensor.requires_grad_(wanted)
        self.put_contents()
        return disturbed

    def _put_hooks(self, own: dict[str, Any]) -> None:
        held = self.hooks.get(id(own))
        if held is not None:
            for name, table in zip(_HOOKS, held):
                _fill(own[name], table)
        elif own["_forward_hooks"] or own["_forward_pre_hooks"]:
            for name in _HOOKS:
                own[name].clear()


def _gradients(tensors: list[Any]) -> list[bool]:
    return [t is not None and t.requires_grad for t in tensors]


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
