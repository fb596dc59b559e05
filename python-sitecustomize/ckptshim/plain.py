"""When a call must be left exactly as it is."""

from __future__ import annotations

import threading
from typing import Any, Callable

import torch
from torch.autograd import forward_ad
from torch.fx import _symbolic_trace
from torch.utils._device import DeviceContext

_C: Any = torch._C
_cuda: Any = torch.cuda
_functorch: Any = _C._functorch
_autograd: Any = _C._autograd

_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_graph_task: Callable[[], int] = _C._current_graph_task_id
_hooks_enabled: Callable[[], bool] = _autograd._saved_tensors_hooks_is_enabled
_tracing: Callable[[], Any] = _C._get_tracing_state
_functorch_level: Callable[[], Any] = _functorch.peek_interpreter_stack
_dispatch_modes: Callable[[], int] = _C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = _C._len_torch_function_stack
_function_mode_at: Callable[[int], Any] = _C._get_function_stack_at


push_hooks: Callable[[Any, Any], None] = _autograd._push_saved_tensors_default_hooks
pop_hooks: Callable[[], None] = _autograd._pop_saved_tensors_default_hooks
_top_hooks: Any = getattr(_autograd, "_top_saved_tensors_default_hooks", None)
counts_hooks = _top_hooks is None       # an older torch does not tell


class _Pushed(threading.local):
    """How many pairs of saved-tensor hooks are in force on a thread."""

    count = 0


_pushed = _Pushed()


def push_counted(pack: Any, unpack: Any) -> None:
    """push_hooks where torch does not tell what is in force."""
    push_hooks(pack, unpack)
    _pushed.count += 1


def pop_counted() -> None:
    """The counterpart of push_counted."""
    _pushed.count -= 1
    pop_hooks()


def hooks_entered(original: Any, hooks: Any, args: Any, kwargs: Any) -> Any:
    """In place of ``saved_tensors_hooks.__enter__``."""
    result = original(hooks, *args, **kwargs)
    _pushed.count += 1
    return result


def hooks_left(original: Any, hooks: Any, args: Any, kwargs: Any) -> Any:
    """In place of ``saved_tensors_hooks.__exit__``."""
    _pushed.count -= 1
    return original(hooks, *args, **kwargs)


push = push_counted if counts_hooks else push_hooks
pop = pop_counted if counts_hooks else pop_hooks


def hooks_in_force() -> bool:
    """Whether the job has saved-tensor hooks of its own, or forbids them."""
    if counts_hooks:
        return _pushed.count > 0 or not _hooks_enabled()
    return _top_hooks(True) is not None or not _hooks_enabled()


class _Again(threading.local):
    """``with again:`` a forward of the job's is recomputed on this thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: Any) -> None:
        self.depth -= 1


again = _Again()


def in_backward() -> bool:
    """Whether this thread runs a part of a backward."""
    return _graph_task() != -1


def must_be_plain() -> bool:
    """No gradients, a recompute, a running backward, a transform, a mode or a trace.

    Inside a backward a forward is somebody's recompute, and inside another
    frame it belongs to that frame; saved-tensor hooks of the job's own are in
    force in the latter case as well (``hooks_in_force``).
    """
    return (not _grad_enabled() or _graph_task() != -1 or again.depth > 0
            or _tracing() is not None
            or _functorch_level() is not None or _dispatch_modes() > 0
            or (_function_modes() > 0 and _foreign_mode()) or _fx_tracing()
            or _forward_mode() or _capturing())


def _foreign_mode() -> bool:
    """Whether a function mode of the job's own would see what the shim calls."""
    return any(type(_function_mode_at(i)) is not DeviceContext
               for i in range(_function_modes()))


def _fx_tracing() -> bool:
    # The public is_fx_tracing() logs a warning.
    return bool(getattr(_symbolic_trace, "_is_fx_tracing_flag", False))


def _forward_mode() -> bool:
    return forward_ad._current_level >= 0


def _capturing() -> bool:
    return bool(_cuda.is_initialized() and _cuda.is_current_stream_capturing())
