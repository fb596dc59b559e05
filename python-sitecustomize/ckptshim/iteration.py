"""One training iteration in progress, and what shows that the next has begun."""

from __future__ import annotations

import time
import weakref
from typing import Any, NamedTuple, Optional

import torch

from .blocks import Call
from .device import Device
from .frame import Frame
from .kinds import Kind, Tapes
from .noted import Noted


class Iteration:
    """What is known of the iteration in progress."""

    def __init__(self, kind: Kind, mode: str, bases: dict[Device, int]) -> None:
        self.kind = kind
        self.mode = mode                # measure, prove, tape, planned, free
        self.bases = bases              # bytes of each device at the start
        self.taped: Optional[Device] = None         # with mode tape: which is
        self.tapes: Optional[Tapes] = None
        self.noted: Optional[Noted] = None
        self.roots = {id(kind.root())}  # modules whose devices are known
        self.trust = kind.trust
        self.shapes: Any = ()
        self.size = 0
        self.calls: list[Call] = []     # in the order of their forwards
        self.unproven: list[weakref.ref[Frame]] = []
        self.failed = 0                 # proofs
        self.proofs = 0
        self.spilled = 0
        self.irregular = False          # an exception, an unknown call, ...
        self.backward = False
        self.recomputing = 0            # recomputes that have not ended
        self.begun = time.perf_counter()
        self.strange = 0                # calls that the tape does not know
        self.unmet = False              # a plain call of a block never proven
        self.late = False               # blocks were found that it has not proven
        self.stamp: Any = None          # of the root's gradients at the start


class Stamp(NamedTuple):
    """Changes when a backward or a hand-written step has happened."""

    versions: list[int]
    gradients: list[tuple[int, int]]


def stamp(module: torch.nn.Module) -> Stamp:
    """How the ends of a root's parameters stand now."""
    wanted = [p for p in module.parameters() if p.requires_grad]
    ends = wanted[:1] + wanted[-1:]
    return Stamp([p._version for p in ends],
                 [(id(p.grad), p.grad._version if p.grad is not None else 0)
                  for p in ends])
