"""Blocks: the modules whose calls may be dropped, and what is known of them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import tensors
from .note import Scope

if TYPE_CHECKING:
    from .bridge import Agent

TRUSTED = "trusted"

# Reasons that a later look may overturn: a cache is built once, a message is
# printed once.
PASSING = {"mutates_python_state", "global_effect", "recompute_differs",
           "recompute_raises"}
_TRIES = 2

# Reasons that speak of what the block, and all that is inside, saves this time.
NEEDLESS = {"no_gradient", "saves_nothing"}


class Call:
    """One position among the calls of a block in an iteration."""

    def __init__(self, block: "Block", number: int) -> None:
        self.block = block
        self.number = number
        self.calls = 0
        self.recomputes = 0
        self.forward_ms = 0.0
        self.recompute_ms = 0.0
        self.saved_bytes = 0
        self.boundary_bytes = 0
        self.saves_nothing = False
        self.index = -1                 # on the tape in progress
        self.storages: list[int] = []   # on the tape in progress

    def measure(self, addresses: list[int], agent: "Agent") -> None:
        """Count the storages that the call's saved tensors alone hold."""
        unique = list(dict.fromkeys(addresses))
        self.saved_bytes = sum(agent.sizes(unique)) if unique else 0

    def measure_boundary(self, args: Any, kwargs: Any, agent: "Agent") -> None:
        """Count the inputs that stay when the call is dropped."""
        inputs = tensors.addresses(tensors.tensors_in((args, kwargs)))
        inputs -= self.block.own_addresses()
        self.boundary_bytes = sum(agent.sizes(list(inputs))) if inputs else 0


class Block:
    """A selected module, its calls and whether its recompute is trusted.

    Trust is per trust key (what the inputs look like, training or not, ...),
    see ``kinds.signature``.
    """

    def __init__(self, name: str, root: str, module: torch.nn.Module,
                 number: int, gone: Callable[[Any], None],
                 reason: Optional[str] = None) -> None:
        self.name = name
        self.root = root
        self.cls = type(module).__name__
        self.number = number
        self.ref = weakref.ref(module, gone)
        self.scope = Scope(module)
        self.calls: list[Call] = []
        self.next = 0
        self.iteration: Any = None
        self.failed: Any = None         # the iteration of its last failure
        self.barred = reason            # never a candidate: scripted, compiled, ...
        self.opened = False             # its parts are blocks in its place
        self.stays_closed = False
        self.parts: list[Block] = []
        self.status: dict[str, str] = {}
        self.tries: dict[str, int] = {}
        self.reason: Optional[str] = reason

    def call(self, iteration: Any) -> Call:
        """The record of the next call in this iteration."""
        if self.iteration is not iteration:
            self.iteration = iteration
            self.next = 0
        if self.next == len(self.calls):
            self.calls.append(Call(self, self.next))
        self.next += 1
        return self.calls[self.next - 1]

    def trusted(self, key: str) -> bool:
        """Whether its recompute was proven for this kind of input."""
        return self.status.get(key) == TRUSTED

    def open_question(self, key: str) -> bool:
        """Whether a proof is still to be tried for this kind of input."""
        status = self.status.get(key)
        if self.barred or status == TRUSTED:
            return False
        passing = status in PASSING or (status == "mutates_arguments"
                                        and self.scope.deep)
        return status is None or (passing and self.tries.get(key, 0) < _TRIES)

    def had_nothing(self, key: str) -> bool:
        """Whether it had nothing to save for this kind of input when it was asked."""
        return self.status.get(key) in NEEDLESS

    def ask_again(self, key: str) -> None:
        """It may have something to save by now."""
        if self.had_nothing(key):
            del self.status[key]

    def refused(self, key: str) -> bool:
        """Whether it may not be recomputed for this kind of input, though it would
        save something.
        """
        status = self.status.get(key)
        return (status not in (None, TRUSTED, *NEEDLESS)
                and not self.open_question(key))

    def trust(self, key: str) -> None:
        """A recompute agreed in every bit."""
        self.status[key] = TRUSTED
        self.reason = None

    def exclude(self, key: str, reason: str, final: bool = False) -> None:
        """It cannot be recomputed, as far as is known now, or for good."""
        self.status[key] = reason
        self.tries[key] = _TRIES if final else self.tries.get(key, 0) + 1
        self.reason = reason

    def own_addresses(self) -> set[int]:
        """The storages of its parameters and buffers."""
        module = self.ref()
        found: set[int] = set()
        if module is None:
            return found
        for part in self.scope.modules(module):
            for table in (part._parameters, part._buffers):
                for tensor in table.values():
                    if tensor is not None:
                        found.add(tensors.address(tensor))
        return found
