"""The device that an iteration works on: the CPU, or one CUDA device."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, Optional

import torch

from . import tensors

if TYPE_CHECKING:
    from .bridge import Agent

_FIRST_CUDA = 1     # index in the ledger, agent/ledger.h
_CUDA_DEVICES = 32


class Device:
    """What the ledger says of one device. Bytes throughout.

    Attributes:
        index: in the ledger.
        cuda: the index of the CUDA device; None for the CPU.
        name: as torch names it.
    """

    def __init__(self, agent: "Agent", cuda: Optional[int] = None) -> None:
        self._agent = agent
        self.cuda = cuda
        self.index = 0 if cuda is None else _FIRST_CUDA + cuda
        self.name = "cpu" if cuda is None else f"cuda:{cuda}"

    def live(self) -> int:
        """Tensor memory in use."""
        return int(self._agent.live(self.index))

    def peak(self) -> int:
        """The most tensor memory in use since the reset."""
        return int(self._agent.peak(self.index))

    def taken_peak(self) -> int:
        """The most that was taken from the device since the reset: what a budget
        bounds. On a CPU that is tensor memory.
        """
        if self.cuda is None:
            return self.peak()
        return max(self.peak(), int(self._agent.taken_peak(self.cuda)))

    def reset(self) -> None:
        """Begin to look for new peaks."""
        self._agent.peak_reset(self.index)
        if self.cuda is not None:
            self._ask_reserved(self.cuda)
            self._agent.taken_peak_reset(self.cuda)

    def give_back(self) -> None:
        """Return cached memory that no tensor uses to the device."""
        if self.cuda is not None and not _cuda_busy():
            with torch.cuda.device(self.cuda):
                torch.cuda.empty_cache()
            self._ask_reserved(self.cuda)

    def _ask_reserved(self, cuda: int) -> None:
        """Expandable segments that were given back since the last allocation are
        known to torch alone.
        """
        if torch.cuda.get_allocator_backend() == "native":
            stats = torch.cuda.memory_stats_as_nested_dict(cuda)
            self._agent.reserved(cuda, stats["reserved_bytes"]["all"]["current"])

    def outside(self) -> int:
        """What others than torch's allocator took from the CUDA device."""
        return 0 if self.cuda is None else int(self._agent.outside(self.cuda))

    def memory(self) -> int:
        """All of the CUDA device's memory; 0 for the CPU."""
        if self.cuda is None:
            return 0
        return int(torch.cuda.get_device_properties(self.cuda).total_memory)


def _cuda_busy() -> bool:
    """Whether a graph is captured: nothing may be freed."""
    return bool(torch.cuda.is_current_stream_capturing())


def find(agent: "Agent", module: torch.nn.Module, args: Any,
         kwargs: Any) -> Optional[Device]:
    """The device of a root call: where most of its parameters and inputs are.

    None where the ledger cannot count: another kind of device, or a CUDA
    allocator that tells nothing.
    """
    bytes_on: dict[torch.device, int] = {}
    for tensor in (*module.parameters(), *tensors.tensors_in((args, kwargs))):
        where = tensor.device
        bytes_on[where] = bytes_on.get(where, 0) + tensor.numel() + 1
    kinds = {where.type for where in bytes_on}
    if not kinds <= {"cpu", "cuda"}:
        return None
    if "cuda" not in kinds:
        return Device(agent)
    if not agent.live_cuda_hooks():
        return None
    where = max((w for w in bytes_on if w.type == "cuda"), key=bytes_on.__getitem__)
    index = where.index if where.index is not None else torch.cuda.current_device()
    return Device(agent, index) if index < _CUDA_DEVICES else None


@functools.lru_cache(maxsize=1)
def say_what_is_unseen(agent: "Agent") -> None:
    """One line where torch's CUDA runtime cannot be watched."""
    if not agent.live_cudart_hooks():
        agent.log("warning", "degraded: torch's CUDA library has the runtime inside; "
                             "what others than torch take from the device is not "
                             "seen")


def several(module: torch.nn.Module, cuda: int) -> list[str]:
    """The CUDA devices that a module's parameters are on beside ``cuda``, and that;
    none if there is no other.
    """
    if torch.cuda.device_count() < 2:
        return []
    devices = {cuda} | {p.device.index for p in module.parameters() if p.is_cuda}
    return [f"cuda:{n}" for n in sorted(devices)] if len(devices) > 1 else []


def phantom_room() -> int:
    """All that a process can take from a phantom device."""
    room = ctypes.CDLL(None).phantom_room
    room.restype = ctypes.c_uint64
    return int(room())


def is_phantom() -> bool:
    """Whether CUDA is the phantom device, on which no value is real."""
    return hasattr(ctypes.CDLL(None), "phantom_settings")
