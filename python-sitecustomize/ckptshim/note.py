"""What a block's forward could see, and putting it back for a recompute.

A note is taken before the forward of a block that may be dropped. It covers the
inputs, the modules' attributes, tables, flags and changing buffers, the random
streams, torch's modes and the context variables. Taking one costs some 30 µs.
"""

from __future__ import annotations

import contextvars
import operator
import weakref
from typing import Any, Callable, Iterable, Optional

import torch

from . import contents, modes, outside, streams, tensors
from .attributes import reorder
from .structures import Copier, hold, is_flat
from .tree import Form, Plan, Stale, Tree

_FORMS = 64             # of one block that are known
_C: Any = torch._C
_is_leaf = operator.attrgetter("is_leaf")


class Scope:
    """One selected module and everything inside it. Reusable, holds it weakly.

    Attributes:
        changing: dotted names of the buffers whose contents a forward changes.
            Until a look has told which (for each combination of training flags, hooks
            and functions) the contents of all buffers are remembered; those of small
            ones, and of those that the job moves between forwards, always.
        deep: copy every record among the arguments, since the forward changes them.
        lean: then hold no tensor inside them. A proof shows whether they were
            needed: a cache passed from layer to layer is only added to.
        outside: the globals and the like that its code led to in the last look.
        workspaces: the indices of saved tensors that need not have the same bits, see
            ``diagnose.workspaces``.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = weakref.ref(module)
        self._plan: Optional[Plan] = None
        self.deep = False
        self.lean = True
        self.outside = outside.NOTHING
        self.changing: set[str] = set()
        self.workspaces: set[int] = set()
        self._moves: dict[str, int] = {}
        self._known: dict[Form, outside.Outside] = {}
        self._form: Form = ()

    def learn(self, changing: Iterable[str], found: outside.Outside,
              harmless: bool = True) -> None:
        """What a look at the forward that was just run has told. One with an effect on
        anything else is looked at again the next time.
        """
        self.changing.update(changing)
        self.outside = found
        if harmless:
            while len(self._known) >= _FORMS:
                del self._known[next(iter(self._known))]
            self._known[self._form] = found

    def leads_to(self, tree: Tree) -> outside.Outside:
        """What its code leads to with the training flags and hooks of a snapshot."""
        return self._known.get(tree.form, self.outside)

    def is_known(self, module: torch.nn.Module) -> bool:
        """Whether a look was taken with the training flags as they are now."""
        return self.knows(self.tree(module, past=False))

    def knows(self, tree: Tree) -> bool:
        """Whether a look was taken with the training flags and hooks of a snapshot."""
        return tree.form in self._known

    def modules(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        """The module and everything inside it, each once."""
        return list(module.modules())

    def tree(self, module: torch.nn.Module, past: bool) -> Tree:
        """A snapshot of the modules as they are."""
        tree = None
        if self._plan is not None:
            try:
                tree = Tree(self._plan, past)
            except Stale:
                pass
        if tree is None:
            self._plan = Plan(module)
            tree = Tree(self._plan, past)
        self._form = tree.form
        return tree

    def follow(self, tree: Tree) -> None:
        """Before a forward: buffers that were written to since the one before may be
        moved by the job at any time, before a recompute as well.
        """
        if not tree.plan.buffers:
            return
        then, now = self._moves, tree.versions()
        self._moves = now
        if now != then:
            self.changing |= {name for name, version in now.items()
                              if then.get(name, version) != version}

    def buffers(self, tree: Tree) -> list[torch.Tensor]:
        """The buffers of a snapshot whose contents are to be remembered."""
        if not self.knows(tree):
            return tree.buffers(None)
        return tree.buffers(self.changing | tree.plan.small)


class Present:
    """What ``Note.leave`` puts back."""

    __slots__ = ("tree", "inside", "contents", "versions", "streams", "modes",
                 "orders", "outside", "moved")

    def __init__(self, tree: Tree, inside: Any, held: contents.Held,
                 past: modes.Modes) -> None:
        self.tree = tree
        self.inside = inside            # the modules: none may die meanwhile
        self.contents = held
        self.versions = [t._version for t, _ in held]
        self.streams = streams.take()
        self.modes = modes.enter(past)
        self.orders: list[tuple[dict[str, Any], tuple[str, ...]]] = []
        self.outside: list[Optional[outside.State]] = []
        self.moved: list[tuple[torch.Tensor, torch.Tensor]] = []


class Note:
    """What one forward could see."""

    __slots__ = ("known", "_scope", "_tree", "_contents", "_streams", "_modes",
                 "_context", "_args", "_kwargs", "_inputs", "_versions", "_module",
                 "_copier", "_copied", "_outside", "_generators", "_kept")

    def __init__(self, scope: Scope, module: torch.nn.Module, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> None:
        self._scope = scope
        self._module = weakref.ref(module)
        # The job's function modes would see reads as well.
        if _C._len_torch_function_stack():
            with _C.DisableTorchFunction():
                self._take(module, args, kwargs)
        else:
            self._take(module, args, kwargs)

    @classmethod
    def take(cls, scope: Scope, module: torch.nn.Module, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> "Note":
        """Remember it, before the forward of module(*args, **kwargs).

        known, of the note: whether a look was taken with these training flags and
        hooks, and led to the same.
        """
        return cls(scope, module, args, kwargs)

    def _take(self, module: torch.nn.Module, args: tuple[Any, ...],
              kwargs: dict[str, Any]) -> None:
        scope = self._scope
        self._hold(args, kwargs)
        self._tree = tree = scope.tree(module, past=True)
        self._outside = past = scope.leads_to(tree).past()
        self.known = scope.knows(tree) and not (past and past.other)
        scope.follow(tree)
        self._contents = contents.take_all(scope.buffers(tree))
        self._streams = streams.take()
        self._modes = modes.take(past=True)
        self._context = contextvars.copy_context()
        self._versions = _versions(self._inputs + tree.solid)

    def _hold(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._copier: Optional[Copier] = None
        self._generators: Optional[outside.State] = None
        self._kept: list[Any] = []
        if is_flat(args, kwargs):
            held: dict[int, torch.Tensor] = {}
            self._args = tuple(hold(args, held))
            self._kwargs = dict(zip(kwargs, hold(kwargs.values(), held)))
            self._inputs = list(held.values())
            self._copied = held
            return
        scope = self._scope
        self._copier = copier = Copier(scope.deep, scope.deep and scope.lean)
        self._args = tuple([copier.copy(item) for item in args])
        self._kwargs = copier.dictionary(kwargs)
        self._inputs = copier.tensors
        self._kept = copier.kept
        self._generators = outside.of_generators(copier.generators).past()

    def copied(self) -> frozenset[int]:
        """The ids of the arguments' parts that a recompute gets copies of."""
        if self._copier is not None:
            return self._copier.copied()
        return frozenset(i for i, held in self._copied.items() if id(held) != i)

    def generators(self) -> frozenset[int]:
        """The ids of the random generators, outside of modules, that it puts back."""
        return outside.generators(self._outside) | outside.generators(self._generators)

    def aliases(self) -> list[torch.Tensor]:
        """What it holds of the inputs in tensors of its own."""
        if self._copier is not None:
            return self._copier.aliases()
        return [held for i, held in self._copied.items() if id(held) != i]

    def addresses(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[int]:
        """The storages of the module's tensors and of the arguments it was given."""
        inputs = (self._inputs if self._copier is None
                  else [*tensors.tensors_in((args, kwargs))])
        return self._tree.addresses() | tensors.addresses(inputs)

    def reads(self, ids: set[int]) -> bool:
        """Whether a tensor with one of these ids is an input or in a module."""
        return not ids.isdisjoint(map(id, self._inputs + self._tree.solid))

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the module's parameters and buffers when it was first seen."""
        return self._tree.plan.bytes

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments for a recompute, in containers of its own."""
        return tuple(self._arguments()[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments for a recompute, in containers of its own."""
        return dict(self._arguments()[1])

    def _arguments(self) -> tuple[Iterable[Any], dict[str, Any]]:
        if self._copier is None and all(map(_is_leaf, self._inputs)):
            return self._args, self._kwargs
        with _C.DisableTorchFunction():
            copier = Copier(self._scope.deep)
            args = [copier.copy(item) for item in self._args]
            return args, copier.dictionary(self._kwargs)

    def call(self, function: Callable[..., Any], module: torch.nn.Module) -> Any:
        """function(module, *args, **kwargs) with the context variables of then.

        To be called between ``enter`` and ``leave``. What function sets in
        context variables is gone afterwards.
        """
        args, kwargs = self._arguments()
        return self._context.copy().run(function, module, *args, **kwargs)

    def enter(self) -> Present:
        """Put the past back; what differs is written, the rest only read."""
        with _C.DisableTorchFunction():
            return self._enter()

    def _enter(self) -> Present:
        module = self._module()
        if module is None:
            raise ReferenceError("the module is gone")
        then = now = self._tree
        inside = then.unchanged()
        if inside is None:
            now = self._scope.tree(module, past=False)
            inside = now.children
        present = Present(now, inside, self._present_contents(now), self._modes)
        try:
            if then is not now and not then.same(now):
                present.orders = then.put()
            if then.memory is not None:
                present.moved = then.memory.enter()
            contents.put_all(self._contents)
            present.outside.append(self._scope.outside.enter(self._outside))
            present.outside.append(outside.NOTHING.enter(self._generators))
            if self._kept:
                present.outside.append(outside.of_objects(self._kept).enter(None))
            streams.put(self._streams, present.streams)
        except BaseException:
            self.leave(present)
            raise
        return present

    def _present_contents(self, now: Tree) -> contents.Held:
        """Of the buffers that this note writes to, or that a recompute may."""
        buffers = self._scope.buffers(now)
        if not (buffers or self._contents):
            return []
        known = set(map(id, buffers))
        # The note may know more of them, from before the look at the block.
        buffers += [t for t, _ in self._contents if id(t) not in known]
        return contents.take_all(buffers)

    def leave(self, present: Present) -> None:
        """Put the present back, whatever the recompute has done to it."""
        with _C.DisableTorchFunction():
            try:
                modes.leave(present.modes)
            finally:
                try:
                    streams.put(present.streams, streams.take())
                finally:
                    for state in present.outside:
                        outside.leave(state)
                    _put_back(present)

    def changed_versions(self) -> list[str]:
        """The inputs, parameters and buffers that were written to since.

        Buffers whose contents are put back do not count.
        """
        watched = self._inputs + self._tree.solid
        if _C._len_torch_function_stack():
            with _C.DisableTorchFunction():
                now = _versions(watched)
        else:
            now = _versions(watched)
        if now == self._versions:
            return []
        kept = {id(t) for t, _ in self._contents}
        names = [f"input {i}" for i in range(len(self._inputs))]
        names += [name for name, tensor in zip(self._tree.plan.names,
                                               self._tree.tensors)
                  if tensor is not None]
        return [name for name, tensor, then, version
                in zip(names, watched, self._versions, now)
                if version != then and id(tensor) not in kept]


def _put_back(present: Present) -> None:
    if not present.tree.agrees():
        present.tree.put()
    for tensor, data in present.moved:
        tensor.data = data
    held = present.contents
    contents.put_all(held)
    for own, order in present.orders:
        reorder(own, order)
    contents.set_versions([t for t, _ in held], present.versions)


_version = operator.attrgetter("_version")


def _versions(tensors: list[Any]) -> list[int]:
    """The versions of tensors, -1 for one that has none."""
    try:
        return [*map(_version, tensors)]
    except (RuntimeError, AttributeError):
        return [_version_or_none(t) for t in tensors]


def _version_or_none(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except (RuntimeError, AttributeError):
        return -1                       # no tensor, or one made for inference only
