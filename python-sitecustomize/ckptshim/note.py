"""What a block's forward could see, and putting it back for a recompute.

A note is taken before the forward of a block that may be dropped. It covers the
inputs, the modules' attributes, tables, flags and changing buffers, the random
streams, torch's modes and the context variables. Taking one costs some 30 µs.
"""

from __future__ import annotations

import contextvars
import functools
import weakref
from typing import Any, Callable, Iterable, NamedTuple, Optional, TypeVar

import torch

from . import attributes, contents, modes, streams
from .structures import Copier
from .tree import Plan, Stale, Tree

_C: Any = torch._C
_Form = tuple[bool, ...]
_F = TypeVar("_F", bound=Callable[..., Any])


def _unseen(method: _F) -> _F:
    """The method, hidden from the job's function modes: they see reads as well."""
    @functools.wraps(method)
    def hidden(*args: Any) -> Any:
        if not _C._len_torch_function_stack():
            return method(*args)
        with _C.DisableTorchFunction():
            return method(*args)
    return hidden  # type: ignore[return-value]


def _changes_modes(method: _F) -> _F:
    """The same for a method that puts function modes in force or ends them."""
    @functools.wraps(method)
    def hidden(*args: Any) -> Any:
        with _C.DisableTorchFunction():
            return method(*args)
    return hidden  # type: ignore[return-value]


class Scope:
    """One selected module and everything inside it. Reusable, holds it weakly.

    Attributes:
        changing: dotted names of the buffers whose contents a forward changes.
            Until a look has told which (for each combination of training flags)
            the contents of all buffers are remembered.
        deep: copy every record among the arguments, since the forward changes them.
        lean: then hold no tensor inside them. A proof shows whether they were
            needed: a cache passed from layer to layer is only added to.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = weakref.ref(module)
        self._plan: Optional[Plan] = None
        self.deep = False
        self.lean = True
        self._changing: set[str] = set()
        self._known: set[_Form] = set()
        self._form: _Form = ()

    @property
    def changing(self) -> set[str]:
        return self._changing

    @changing.setter
    def changing(self, names: Iterable[str]) -> None:
        self._changing = set(names)
        self._known.add(self._form)

    def is_known(self, module: torch.nn.Module) -> bool:
        """Whether a look was taken with the training flags as they are now."""
        self.tree(module, past=False)
        return self._form in self._known

    def modules(self, module: torch.nn.Module) -> list[torch.nn.Module]:
        """The module and everything inside it, each once."""
        return list(module.modules())

    def tree(self, module: torch.nn.Module, past: bool) -> Tree:
        """A snapshot of the modules as they are."""
        plan = self._plan
        if plan is not None:
            try:
                return self._fitting(Tree(plan, past))
            except Stale:
                pass
        self._plan = plan = Plan(module)
        return self._fitting(Tree(plan, past))

    def _fitting(self, tree: Tree) -> Tree:
        values = tree.values
        self._form = tuple([bool(values[i]) for i in tree.plan.training] + tree.modes)
        tree.keep_contents(self._changing if self._form in self._known else None)
        return tree


class Present(NamedTuple):
    """What ``Note.leave`` puts back."""

    tree: Tree
    orders: list[tuple[dict[str, Any], tuple[str, ...]]]
    streams: tuple[Any, ...]
    modes: modes.Present
    buffers: list[torch.Tensor]
    versions: list[int]


class Note:
    """What one forward could see."""

    __slots__ = ("_scope", "_tree", "_streams", "_modes", "_context", "_args",
                 "_kwargs", "_inputs", "_versions", "_module", "_copier")

    @_unseen
    def __init__(self, scope: Scope, module: torch.nn.Module, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> None:
        copier = Copier(scope.deep, scope.deep and scope.lean)
        self._scope = scope
        self._module = weakref.ref(module)
        self._args = tuple([copier.copy(item) for item in args])
        self._kwargs = copier.dictionary(kwargs) if kwargs else {}
        self._inputs = copier.tensors
        self._copier = copier
        self._tree = tree = scope.tree(module, past=True)
        self._streams = streams.take()
        self._modes = modes.take()
        self._context = contextvars.copy_context()
        self._versions = list(map(_version, copier.tensors + tree.tensors))

    @classmethod
    def take(cls, scope: Scope, module: torch.nn.Module, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> "Note":
        """Remember it, before the forward of module(*args, **kwargs)."""
        return cls(scope, module, args, kwargs)

    def copied(self) -> frozenset[int]:
        """The ids of the arguments' parts that a recompute gets copies of."""
        return self._copier.copied()

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments for a recompute, in containers of its own."""
        return tuple(self._arguments()[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments for a recompute, in containers of its own."""
        return self._arguments()[1]

    @_unseen
    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
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

    @_changes_modes
    def enter(self) -> Present:
        """Put the past back; what differs is written, the rest only read."""
        module = self._module()
        if module is None:
            raise ReferenceError("the module is gone")
        scope = self._scope
        tree = scope.tree(module, past=False)
        # The note may know more buffers, from before the look at the block.
        known = {id(t) for t, _ in tree.contents}
        tree.contents += [(t, contents.take(t)) for t, _ in self._tree.contents
                          if id(t) not in known]
        buffers = [t for t, _ in tree.contents]
        present = Present(tree, [], streams.take(), modes.enter(self._modes), buffers,
                          [t._version for t in buffers])
        try:
            if self._tree.same(tree):
                self._tree.put_contents()
            else:
                present.orders.extend(self._tree.put())
            streams.put(self._streams)
        except BaseException:
            self.leave(present)
            raise
        return present

    @_changes_modes
    def leave(self, present: Present) -> None:
        """Put the present back, whatever the recompute has done to it."""
        try:
            modes.leave(present.modes)
        finally:
            try:
                streams.put(present.streams)
            finally:
                _put_back(present.tree)
                for own, order in present.orders:
                    attributes.reorder(own, order)
                contents.set_versions(present.buffers, present.versions)

    @_unseen
    def changed_versions(self) -> list[str]:
        """The inputs, parameters and buffers that were written to since.

        Buffers whose contents are put back do not count.
        """
        tensors = self._inputs + self._tree.tensors
        if list(map(_version, tensors)) == self._versions:
            return []
        inputs = len(self._inputs)
        kept = {id(t) for t, _ in self._tree.contents}
        names = [f"input {i}" for i in range(inputs)] + self._tree.plan.names
        return [name for name, tensor, version in zip(names, tensors, self._versions)
                if _version(tensor) != version and id(tensor) not in kept]


def _put_back(tree: Tree) -> None:
    try:
        if tree.same(Tree(tree.plan, past=False)):
            tree.put_contents()
            return
    except Stale:
        pass
    tree.put()


def _version(tensor: Any) -> int:
    try:
        return tensor._version  # type: ignore[no-any-return]
    except (RuntimeError, AttributeError):
        return -1                       # no tensor, or one made for inference only
