"""torch's modes and flags that a forward depends on, and putting them back.

``take()`` says how they stand, ``enter(past)`` writes those that differ and
returns what ``leave`` needs to put everything back.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch.utils import _device

_C: Any = torch._C
_cuda_in_use: Callable[[], bool] = torch.cuda.is_initialized
_HAS_CUDA: bool = hasattr(torch._C, "_CudaDeviceProperties")
Row = tuple[Callable[[], Any], Callable[[Any], Any]]

# Getter and setter in torch._C, where this torch has both.
_FLAGS = (
    ("_get_cudnn_enabled", "_set_cudnn_enabled"),
    ("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    ("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    ("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
    ("_get_cublas_allow_fp16_accumulation", "_set_cublas_allow_fp16_accumulation"),
    ("_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    ("_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
    ("_get_nnpack_enabled", "_set_nnpack_enabled"),
    ("_get_flash_sdp_enabled", "_set_sdp_use_flash"),
    ("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient"),
    ("_get_math_sdp_enabled", "_set_sdp_use_math"),
    ("_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn"),
    ("_get_overrideable_sdp_enabled", "_set_sdp_use_overrideable"),
    ("_get_math_sdp_allow_fp16_bf16_reduction",
     "_set_math_sdp_allow_fp16_bf16_reduction"),
    ("_get_deterministic_fill_uninitialized_memory",
     "_set_deterministic_fill_uninitialized_memory"),
    ("_get_cpu_allow_fp16_reduced_precision_reduction",
     "_set_cpu_allow_fp16_reduced_precision_reduction"),
)


def _set_priority(order: Any) -> None:
    _C._set_sdp_priority_order([int(backend) for backend in order])


def _set_matmul_precision(value: Any) -> None:
    _C._set_float32_matmul_precision(value)


def _autocast_rows(device: str) -> list[Row]:
    return [
        (partial(torch.is_autocast_enabled, device),
         partial(torch.set_autocast_enabled, device)),
        (partial(torch.get_autocast_dtype, device),
         partial(torch.set_autocast_dtype, device)),
    ]


def _rows() -> list[Row]:
    """Every flag; where two share one setter, each keeps the other's value."""
    rows: list[Row] = [
        (torch.get_default_dtype, _C._set_default_dtype),
        (_C._get_deterministic_algorithms,
         lambda v: _C._set_deterministic_algorithms(
             v, warn_only=_C._get_deterministic_algorithms_warn_only())),
        (_C._get_deterministic_algorithms_warn_only,
         lambda v: _C._set_deterministic_algorithms(
             _C._get_deterministic_algorithms(), warn_only=v)),
        (torch.is_anomaly_enabled,
         lambda v: torch.set_anomaly_enabled(v, torch.is_anomaly_check_nan_enabled())),
        (torch.is_anomaly_check_nan_enabled,
         lambda v: torch.set_anomaly_enabled(torch.is_anomaly_enabled(), v)),
        (_C._get_float32_matmul_precision, _set_matmul_precision),
    ]
    devices = ["cpu", "cuda"] if _HAS_CUDA else ["cpu"]
    for device in devices:
        rows += _autocast_rows(device)
    rows += [(getattr(_C, get), getattr(_C, put)) for get, put in _FLAGS
             if hasattr(_C, get) and hasattr(_C, put)]
    if hasattr(_C, "_set_sdp_priority_order"):
        rows.append((_C._get_sdp_priority_order, _set_priority))
    return [row for row in rows if _works(row)]


def _works(row: Row) -> bool:
    try:
        row[0]()
        return True
    except Exception:
        return False


_ROWS = _rows()
_GETTERS = tuple(get for get, _ in _ROWS)
# The places among them that tell for which devices autocast is on.
_AUTOCAST = [i for i, get in enumerate(_GETTERS)
             if getattr(get, "func", None) is torch.is_autocast_enabled]
_call: Any = getattr(operator, "call", lambda function: function())
_SETTERS = tuple(put for _, put in _ROWS)

_depth: Callable[[], int] = _C._len_torch_function_stack
_mode_at: Callable[[int], Any] = _C._get_function_stack_at
_push: Callable[[Any], None] = _C._push_on_torch_function_stack
_pop: Callable[[], Any] = _C._pop_torch_function_stack


class Modes(NamedTuple):
    """How torch's modes stood.

    Attributes:
        flags: the values of every flag, in the order of the table.
        cache: whether autocast kept its cache of cast weights.
        session: of a past under autocast: tells that cache from an emptied one.
        by_hand: autocast was switched on outside of any region; nothing empties its
            cache then.
        stack: the function modes in force, outermost first.
        default_device: what the innermost ``with torch.device`` set.
        place: index of the current CUDA device, None without CUDA.
        streams: the current stream of each of several CUDA devices in use. Of one the
            engine sets that of the forward when it asks for what was saved.
    """

    flags: list[Any]
    cache: bool
    session: Optional[torch.Tensor]
    by_hand: bool
    stack: tuple[Any, ...]
    default_device: Any
    place: Optional[int]
    streams: tuple[Any, ...]


_several: list[int] = []    # CUDA devices


def follow_streams(devices: list[int]) -> None:
    """From now on the current streams of these CUDA devices belong to the modes."""
    _several[:] = devices


def take(past: bool = False) -> Modes:
    """How they stand now. past: for a recompute, later."""
    depth = _depth()
    flags = [*map(_call, _GETTERS)]
    casts = past and any(map(flags.__getitem__, _AUTOCAST))
    inside = _nesting() if casts else 0
    return Modes(flags, torch.is_autocast_cache_enabled(),
                 _session() if casts else None, casts and not inside,
                 tuple(map(_mode_at, range(depth))) if depth else (),
                 _device.CURRENT_DEVICE,
                 torch.cuda.current_device() if _HAS_CUDA and _cuda_in_use() else None,
                 tuple(map(_C._cuda_getCurrentStream, _several)) if _several else ())


_weight: list[torch.Tensor] = []    # one of ours: it is cast once in a region
_by_hand = False                    # the job has ever switched autocast on so


def _nesting() -> int:
    """Of how many autocast regions this is inside."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _session() -> torch.Tensor:
    """Our weight as it lies cast in autocast's cache until that is emptied: while this
    is alive no other one lies there. Gradients must be on.
    """
    if not _weight:
        _weight.append(torch.ones(1, 1, dtype=torch.float32, device="cpu",
                                  requires_grad=True))
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)
    torch.autocast_increment_nesting()          # or the end of ours would empty it
    try:
        with torch.autocast("cpu", torch.bfloat16):
            product: Any = torch.mm(_weight[0], _weight[0])
        cast: torch.Tensor = product.grad_fn._saved_self
        return cast.detach()
    finally:
        torch.autocast_decrement_nesting()
        torch.set_autocast_cache_enabled(cached)


class Present(NamedTuple):
    """What ``leave`` puts back."""

    modes: Modes
    grad: bool
    inference: Any


def enter(past: Modes) -> Present:
    """Make the modes the past's, with gradients on.

    A recompute inside the autocast region of its forward finds the weights that
    this has cast, which may have changed since. In another region it leaves the cache
    alone: it neither takes from it nor adds to it. Outside of all it has one of its
    own, unless the job has switched autocast on by hand.
    """
    global _by_hand
    _by_hand |= past.by_hand
    inference = None
    if torch.is_inference_mode_enabled():
        inference = torch.inference_mode(False)
        inference.__enter__()
    present = Present(take(), torch.is_grad_enabled(), inference)
    _write(past, present.modes.flags)
    inside = torch.autocast_increment_nesting() > 1 or _by_hand
    _C._set_grad_enabled(True)
    same = inside and past.session is not None and past.session.data_ptr() == (
        _session().data_ptr())
    torch.set_autocast_cache_enabled(past.cache and (same or not inside))
    return present


def leave(present: Present) -> None:
    """Make the modes the present's again, whatever they are now."""
    if torch.autocast_decrement_nesting() == 0 and not _by_hand:
        torch.clear_autocast_cache()
    _write(present.modes, [*map(_call, _GETTERS)])
    torch.set_autocast_cache_enabled(present.modes.cache)
    _C._set_grad_enabled(present.grad)
    if present.inference is not None:
        present.inference.__exit__(None, None, None)


def settle(cuda: int) -> None:
    """Let torch choose the order of attention's kernels on a CUDA device, which it
    does at their first use: the first block seemed to have changed a flag. Some
    hundred bytes of the device are taken and freed.
    """
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None or torch.cuda.is_current_stream_capturing():
        return
    with _C.DisableTorchFunction(), torch.no_grad():
        sample = torch.empty(1, 1, 8, 8, device=f"cuda:{cuda}", dtype=torch.float16)
        choose(sample, sample, sample)


def changed(before: Modes) -> bool:
    """Whether a flag or the stack is not what it was."""
    now = take()
    return (now.flags != before.flags or now.cache != before.cache
            or not _same_stack(now.stack, before.stack))


def _write(target: Modes, flags: list[Any]) -> None:
    """Write what differs from target; flags are those of now."""
    if flags != target.flags:
        for value, wanted, put in zip(flags, target.flags, _SETTERS):
            if value != wanted:
                put(wanted)
    depth = _depth()
    if depth or target.stack:
        now = tuple(map(_mode_at, range(depth)))
        if not _same_stack(now, target.stack):
            for _ in now:
                _pop()
            for mode in target.stack:
                _push(mode)
    if _device.CURRENT_DEVICE is not target.default_device:
        _device.CURRENT_DEVICE = target.default_device
    for stream in target.streams:
        if _C._cuda_getCurrentStream(stream[1]) != stream:
            _C._cuda_setStream(*stream)         # and makes its device the current one
    if target.place is not None and torch.cuda.current_device() != target.place:
        torch.cuda.set_device(target.place)


def _same_stack(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))
