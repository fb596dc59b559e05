"""Finds the outermost modules of a job, and where its iterations end.

``nn.Module.__call__`` is watched only while roots are being learned: during
the first two iterations, and again after an optimizer is built. After that the
class-level ``forward`` of the roots is enough.

Everything here runs in the middle of the job's own calls: where our part of one
fails, the agent stands down and the call goes on as the job's alone.
"""

from __future__ import annotations

import logging
import sys
import threading
import types
import warnings
import weakref
from typing import Any, Optional

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim import optimizer as _optimizer

from . import discover, plain
from .blocks import Block
from .controller import Controller
from .frames import MismatchError
from .mute import once
from .patch import Patches
from .planning import Infeasible
from .stack import room
from .steps import Steps

_LEARNING = 2       # iterations
_RENEWALS = 8
_FRAMES = 64        # of the stack that are searched
_MOST = 1 << 16     # modules that are counted


class Roots:
    """Installs everything that notices a job's calls; one per process."""

    def __init__(self, controller: Controller, patches: Patches) -> None:
        self._controller = controller
        self._patches = patches
        self._steps = Steps()
        self._roots: dict[int, weakref.ref[nn.Module]] = {}
        self._types: set[type] = set()
        self._local = threading.local()
        self._learning = 0
        self._renewals = _RENEWALS
        self._handles: list[Any] = []
        controller.candidates.patch = self._patch_block
        controller.look_again = self._look_again
        self._sizes: dict[int, int] = {}

    def install(self) -> None:
        """Begin to watch."""
        self._learn()
        self._patches.replace(Optimizer, "__init__", self._optimizer_built)
        self._patches.replace(logging.Logger, "handle", once)
        show = getattr(warnings, "_showwarnmsg", None)
        if isinstance(show, types.FunctionType):
            self._patches.route(show, once)
        if plain.counts_hooks:
            hooks = torch.autograd.graph.saved_tensors_hooks
            self._patches.replace(hooks, "__enter__", plain.hooks_entered)
            self._patches.replace(hooks, "__exit__", plain.hooks_left)
        self._handles = [
            _optimizer.register_optimizer_step_pre_hook(self._before_step),
            _optimizer.register_optimizer_step_post_hook(self._after_step)]

    def after_fork(self) -> None:
        """Learn again, should the child train."""
        self._local = threading.local()
        self._steps = Steps()
        self._learn()

    # -- modules ---------------------------------------------------------------

    def _learn(self) -> None:
        self._learning = _LEARNING
        called = (self._called if self._controller.ranges is None
                  else self._called_in_ranges)
        self._patches.replace(nn.Module, "__call__", called)

    def _learn_from_outside(self, root: nn.Module) -> None:
        """Learn once more if another module calls what was called from outside of all
        of them so far.
        """
        caller = _caller(root) if self._renewals else None
        if caller is not None and not self._known(caller):
            self._renewals -= 1
            self._learn()

    def _called(self, original: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        local = self._local
        depth = 0
        try:
            depth = getattr(local, "calls", 0)
            if depth == 0 and not self._known(module) and not plain.must_be_plain():
                self._add_root(module)
        except Exception as error:
            self._controller.failed(error)
        local.calls = depth + 1
        try:
            if depth:
                return original(module, *args, **kwargs)
            with room:
                return original(module, *args, **kwargs)
        finally:
            local.calls = depth

    def _called_in_ranges(self, original: Any, module: nn.Module, args: Any,
                          kwargs: Any) -> Any:
        """The same with CKPT_BLOCKS=nvtx."""
        ranges, outside = self._controller.ranges, None
        assert ranges is not None
        try:
            outside = ranges.call_begins(module)
        except Exception as error:
            self._controller.failed(error)
        try:
            return self._called(original, module, args, kwargs)
        finally:
            if outside is not None:
                ranges.call_ends(outside)

    def _known(self, module: nn.Module) -> bool:
        found = self._roots.get(id(module))
        return found is not None and found() is module

    def _add_root(self, module: nn.Module) -> None:
        if any(map(nn.parameter.is_lazy, [*module.parameters(), *module.buffers()])):
            return                      # its first call makes them: from the next on
        key = id(module)

        def gone(_: Any) -> None:
            try:
                self._roots.pop(key, None)
                self._sizes.pop(key, None)
            except Exception:       # nobody is there to hear of it
                pass

        self._roots[key] = weakref.ref(module, gone)
        if discover.is_opaque(module):
            self._controller.agent.log(
                "info", f"{type(module).__name__} is compiled or scripted as a whole "
                        "and is left alone")
            return
        if self._patches.replace(type(module), "forward", self._forward):
            self._types.add(type(module))
        found = discover.find(module, self._controller.settings.blocks)
        self._controller.candidates.register(found, type(module).__name__)
        self._sizes[key] = _size(module)

    def _look_again(self, root: nn.Module) -> bool:
        """Find the blocks of a root that gained or lost modules; whether it did."""
        size = _size(root)
        if self._sizes.get(id(root), size) == size:
            return False
        self._sizes[id(root)] = size
        found = discover.find(root, self._controller.settings.blocks)
        self._controller.candidates.register(found, type(root).__name__)
        return True

    def _patch_block(self, module: nn.Module) -> bool:
        return ("forward" not in module.__dict__
                and self._patches.replace(type(module), "forward", self._forward))

    def _forward(self, original: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """In place of the forward of every patched class."""
        local, controller = self._local, self._controller
        try:
            outermost = not getattr(local, "depth", 0)
            if outermost and type(module) in self._types and torch.is_grad_enabled():
                if not self._known(module) and not getattr(local, "calls", 0) > 1 \
                        and not plain.must_be_plain():
                    self._add_root(module)
                outermost = self._known(module) and not plain.must_be_plain()
                if outermost and not self._learning:
                    self._learn_from_outside(module)
                block = None if outermost else self._block(module)
            else:
                outermost, block = False, self._block(module)
        except Exception as error:
            controller.failed(error)
            return original(module, *args, **kwargs)
        if outermost:
            begun: list[bool] = []
            try:
                return self._root_forward(begun, original, module, args, kwargs)
            except Exception as error:
                if begun:               # by the job's own code, or by ours on purpose
                    raise
                controller.failed(error)
                return original(module, *args, **kwargs)
        if block is None:
            return original(module, *args, **kwargs)
        return controller.block_forward(block, original, module, args, kwargs)

    def _block(self, module: nn.Module) -> Optional[Block]:
        block = self._controller.candidates.by_module.get(id(module))
        return block if block is not None and block.ref() is module else None

    def _root_forward(self, begun: list[bool], original: Any, module: nn.Module,
                      args: Any, kwargs: Any) -> Any:
        begun.append(True)
        local, controller = self._local, self._controller
        block = None
        try:
            controller.root_enter(module, args, kwargs)
            block = self._block(module)     # which the line above may have found
        except Infeasible:
            raise
        except Exception as error:
            controller.failed(error)
        local.depth = 1
        try:
            with room:
                if block is None:
                    return original(module, *args, **kwargs)
                return controller.block_forward(block, original, module, args, kwargs)
        except BaseException:
            if controller.current is not None:
                controller.current.irregular = True
            raise
        finally:
            local.depth = 0

    # -- optimizers --------------------------------------------------------------

    def _optimizer_built(self, original: Any, optimizer: Optimizer, args: Any,
                         kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        self._controller.has_optimizer = True
        try:
            self._learn()
        except Exception as error:
            self._controller.failed(error)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._controller.stepped = True
        try:
            self._controller.planning.optimizers.add(optimizer)
        except Exception as error:
            self._controller.failed(error)
        try:
            self._controller.before_step(optimizer)
        except MismatchError:
            raise
        except Exception as error:      # what is dropped still is checked later
            self._controller.failed(error)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        try:
            if self._ends(optimizer):
                self._learn_less()
        except Exception as error:
            self._controller.failed(error)

    def _ends(self, optimizer: Optimizer) -> bool:
        """Whether an iteration ends with this step; it is finished then, or will be."""
        if plain.in_backward():         # one of many, as soon as a gradient is there
            return self._controller.finish_after_backward()
        if not self._steps.ends(id(optimizer)):
            return False
        self._controller.finish()
        return True

    def _learn_less(self) -> None:
        """An iteration has passed."""
        if self._learning:
            self._learning -= 1
            if not self._learning:
                self._patches.restore(nn.Module, "__call__")


def _caller(module: nn.Module) -> Optional[nn.Module]:
    """The module whose call the innermost call of another one is inside of, if any."""
    code, frame = nn.Module._call_impl.__code__, sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None or frame.f_back is None:
            return None
        if frame.f_code is code:
            found = frame.f_locals.get("self")
            if found is not module and isinstance(found, nn.Module):
                return found
        frame = frame.f_back
    return None


def _size(root: nn.Module) -> int:
    """How many modules are inside; shared ones count each time."""
    count, stack = 0, [root]
    while stack and count < _MOST:
        children = stack.pop()._modules.values()
        count += len(children)
        stack += [child for child in children if child is not None]
    return count
