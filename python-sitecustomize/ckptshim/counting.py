"""Counts what a recompute would cost on a device that is not there.

FLOPs come from torch's own counters (``torch.utils.flop_counter``), bytes from
what each kernel reads and writes. Milliseconds are the larger of both at the
device's peak rates: a lower bound that orders blocks well, no forecast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from .tensors import nbytes, tensors_in

if TYPE_CHECKING:
    from .blocks import Call

# FLOPs a clock and multiprocessor by compute capability: dense half precision
# with 32-bit sums on tensor cores, and 32-bit without (NVIDIA's architecture
# whitepapers: Volta, Turing, Ampere, Ada, Hopper, Blackwell).
_RATES = {(7, 0): (1024, 128), (7, 5): (1024, 128), (8, 0): (2048, 128),
          (8, 6): (512, 256), (8, 9): (512, 256), (9, 0): (4096, 256),
          (10, 0): (8192, 256)}
_HALF = (torch.float16, torch.bfloat16)
_CLOCK, _MEMORY_CLOCK, _BUS = 1.5e9, 1.6e9, 5120    # where torch does not tell


class Cost(NamedTuple):
    """Of one call of a block."""

    half_flops: int
    other_flops: int
    bytes: int

    @property
    def flops(self) -> int:
        """All of them."""
        return self.half_flops + self.other_flops


class Rates(NamedTuple):
    """Peak rates of a device, a second."""

    half_flops: float
    other_flops: float
    bytes: float

    @classmethod
    def of(cls, cuda: int) -> "Rates":
        """Those of a CUDA device, from its properties."""
        found: Any = torch.cuda.get_device_properties(cuda)
        clock = 1e3 * getattr(found, "clock_rate", _CLOCK / 1e3)
        memory = 1e3 * getattr(found, "memory_clock_rate", _MEMORY_CLOCK / 1e3)
        bus = getattr(found, "memory_bus_width", _BUS)
        half, other = _RATES.get((found.major, found.minor), (1024, 128))
        cores = found.multi_processor_count
        return cls(half * clock * cores, other * clock * cores, 2 * memory * bus / 8)

    def ms(self, cost: Cost) -> float:
        """The least time for a cost."""
        compute = (cost.half_flops / self.half_flops
                   + cost.other_flops / self.other_flops)
        return 1e3 * max(compute, cost.bytes / self.bytes)


_Mode: Any = TorchDispatchMode


class Counter(_Mode):  # type: ignore[misc]
    """``with Counter() as counter: ...; counter.cost``"""

    def __init__(self) -> None:
        super().__init__()
        self.cost = Cost(0, 0, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        half, other, moved = self.cost
        count: Any = flop_registry.get(func._overloadpacket)
        if count is not None:
            flops = int(count(*args, **kwargs, out_val=out))
            first = next(tensors_in((args, kwargs)))
            half += flops if first.dtype in _HALF else 0
            other += 0 if first.dtype in _HALF else flops
        if not func.is_view:
            moved += sum(map(nbytes, tensors_in((args, kwargs, out))))
        self.cost = Cost(half, other, moved)
        return out


class Costs:
    """What the blocks' calls cost, as far as they were recomputed."""

    def __init__(self, cuda: int) -> None:
        self.rates = Rates.of(cuda)
        self._costs: dict["Call", Cost] = {}

    def of(self, call: "Call") -> Cost:
        """Of one call; nothing if it was never counted."""
        return self._costs.get(call, Cost(0, 0, 0))

    def wrap(self, call: "Call", function: Callable[..., Any]) -> Callable[..., Any]:
        """A recompute of call that is counted, instead of timed."""
        def run(*args: Any, **kwargs: Any) -> Any:
            counter = Counter()
            try:
                with counter:
                    return function(*args, **kwargs)
            finally:
                self._costs[call] = counter.cost
                call.forward_ms = call.recompute_ms = self.rates.ms(counter.cost)
        return run
