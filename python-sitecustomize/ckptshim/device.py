"""One device: the CPU or a CUDA device, and what the ledger says of it."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, Iterable, Optional

import torch

from . import tensors

if TYPE_CHECKING:
    from .bridge import Agent

_FIRST_CUDA = 1     # index in the ledger, agent/ledger.h
_CUDA_DEVICES = 32


class Peaks:
    """The peaks of iterations: of the first, of the last and the highest."""

    def __init__(self) -> None:
        self.first = self.last = self.max = 0

    def add(self, peak: int) -> None:
        """One more iteration."""
        self.first = self.first or peak
        self.last = peak
        self.max = max(self.max, peak)


class Device:
    """What the ledger says of one device. Bytes throughout.

    Attributes:
        index: in the ledger.
        cuda: the index of the CUDA device; None for the CPU.
        name: as torch names it.
        peaks: of what was taken in the iterations that worked on it.
        overhead: by how much the last of them took more than its tensors.
    """

    def __init__(self, agent: "Agent", cuda: Optional[int] = None) -> None:
        self._agent = agent
        self.cuda = cuda
        self.index = 0 if cuda is None else _FIRST_CUDA + cuda
        self.name = "cpu" if cuda is None else f"cuda:{cuda}"
        self.peaks = Peaks()
        self.overhead = 0

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is on it."""
        if self.cuda is None:
            return not tensor.is_cuda
        return tensor.is_cuda and tensor.device.index == self.cuda

    def measure(self) -> None:
        """An iteration that worked on it has ended."""
        taken = self.taken_peak()
        self.peaks.add(taken)
        self.overhead = taken - self.peak()

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
            self.ask_reserved()
            self._agent.taken_peak_reset(self.cuda)

    def ask_reserved(self) -> None:
        """Expandable segments that were given back since the last allocation are
        known to torch alone.
        """
        if self.cuda is not None and torch.cuda.get_allocator_backend() == "native":
            stats = torch.cuda.memory_stats_as_nested_dict(self.cuda)
            self._agent.reserved(self.cuda, stats["reserved_bytes"]["all"]["current"])

    def outside(self) -> int:
        """What others than torch's allocator took from the CUDA device."""
        return 0 if self.cuda is None else int(self._agent.outside(self.cuda))

    def largest_segment(self) -> int:
        """The most that torch's allocator has asked the device for at once; 0 for the
        CPU, and where segments expand. Takes some milliseconds.
        """
        if self.cuda is None or torch.cuda.get_allocator_backend() != "native":
            return 0
        snapshot: Any = torch.cuda.memory_snapshot
        return max((segment["total_size"] for segment in snapshot()
                    if segment["device"] == self.cuda
                    and not segment.get("is_expandable")), default=0)

    def memory(self) -> int:
        """All of the CUDA device's memory; 0 for the CPU."""
        if self.cuda is None:
            return 0
        return int(torch.cuda.get_device_properties(self.cuda).total_memory)


def give_back(devices: Iterable[Device]) -> None:
    """Return cached memory that no tensor uses to the devices."""
    if torch.cuda.is_current_stream_capturing():
        return                          # nothing may be freed
    torch.cuda.empty_cache()            # of all devices
    for device in devices:
        device.ask_reserved()


def find(agent: "Agent", module: torch.nn.Module, args: Any,
         kwargs: Any) -> list[Optional[int]]:
    """The CUDA devices of a root call's parameters and inputs, rising; [None], the
    CPU, where there are none.

    Nothing where the ledger cannot count: another kind of device, or a CUDA
    allocator that tells nothing.
    """
    places = {tensor.device for tensor in
              (*module.parameters(), *tensors.tensors_in((args, kwargs)))}
    kinds = {place.type for place in places}
    if not kinds <= {"cpu", "cuda"}:
        return []
    if "cuda" not in kinds:
        return [None]
    indices = {torch.cuda.current_device() if place.index is None else place.index
               for place in places if place.type == "cuda"}
    if not agent.live_cuda_hooks() or max(indices) >= _CUDA_DEVICES:
        return []
    return [*sorted(indices)]


@functools.lru_cache(maxsize=1)
def say_what_is_unseen(agent: "Agent") -> None:
    """One line where torch's CUDA runtime cannot be watched."""
    if not agent.live_cudart_hooks():
        agent.log("warning", "degraded: torch's CUDA library has the runtime inside; "
                             "what others than torch take from the device is not "
                             "seen")


def phantom_room() -> int:
    """All that a process can take from a phantom device."""
    room = ctypes.CDLL(None).phantom_room
    room.restype = ctypes.c_uint64
    return int(room())


def is_phantom() -> bool:
    """Whether CUDA is the phantom device, on which no value is real."""
    return hasattr(ctypes.CDLL(None), "phantom_settings")
