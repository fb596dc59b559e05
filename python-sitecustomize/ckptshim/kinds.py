"""Kinds of iterations, their tapes and their plans."""

from __future__ import annotations

import weakref
from typing import Any, Optional

import torch

from . import tensors
from .blocks import Call

Shapes = tuple[tuple[int, ...], ...]
_TAPES = 8

# Devices that autocast is set for, and what a key says of each.
_AUTOCAST = (("cpu", "autocast"), ("cuda", "cuda autocast"))


class Signature:
    """What tells one kind of root call from another.

    Attributes:
        key: root class, input ranks and dtypes, training, autocast, gradients.
        trust: the same without the gradients: what trust in a block rests on.
        shapes: the inputs' shapes; a magnitude, not part of the key.
    """

    def __init__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        inputs = list(tensors.tensors_in((args, kwargs)))
        forms = ", ".join(f"{str(t.dtype)[6:]}[{t.dim()}]" for t in inputs)
        modes = "" if module.training else " eval"
        for device, name in _AUTOCAST:
            if torch.is_autocast_enabled(device):
                modes += f" {name}({str(torch.get_autocast_dtype(device))[6:]})"
        grads = any(p.grad is not None for p in module.parameters())
        self.trust = f"{type(module).__name__}({forms}){modes}"
        self.key = self.trust + (" grads" if grads else "")
        self.shapes: Shapes = tuple(tuple(t.shape) for t in inputs)
        self.size = sum(t.numel() for t in inputs)


def covers(large: Shapes, small: Shapes) -> bool:
    """Whether no input of small is larger than that of large, in any dimension."""
    return len(large) == len(small) and all(
        len(a) == len(b) and all(m >= n for m, n in zip(a, b))
        for a, b in zip(large, small))


class Tape:
    """One measured iteration with everything trusted dropped, and its plan."""

    def __init__(self, shapes: Shapes, calls: list[Call],
                 profile: dict[str, Any]) -> None:
        self.shapes = shapes
        self.calls = calls
        self.profile = profile          # one entry of profile.json's "kinds"
        self.base: int = profile["segments"][0]["live"]
        self.plan: dict[str, Any] = {}  # one entry of plan.json's "plans"
        self.plan_base: int = self.base
        self.known = set(calls)
        self.recompute: set[Call] = set()
        self.last_base = self.base
        self.margin = 0                 # left free below the budget
        self.relaxed = False            # that was made smaller, or must not be

    def predicted(self, base: int) -> int:
        """The plan's peak for an iteration that starts at base live bytes."""
        peak: int = self.plan["predicted_bytes"]
        return peak + base - self.plan_base

    def adopt(self, plan: dict[str, Any], base: int) -> bool:
        """Put a plan in force; whether any decision changed."""
        chosen = {c for c, d in zip(self.calls, plan["decisions"])
                  if d["decision"] == "recompute"}
        changed = chosen != self.recompute or not self.plan
        self.plan, self.plan_base, self.recompute = plan, base, chosen
        return changed


class Kind:
    """One kind of iteration of one root module."""

    def __init__(self, root: torch.nn.Module, signature: Signature) -> None:
        self.root = weakref.ref(root)
        self.root_name = type(root).__name__
        self.key = signature.key
        self.trust = signature.trust
        self.state = "prove"            # prove, tape, planned, free
        self.must_prove = False         # the budget is known to be too small
        self.rounds = 0                 # iterations in this state
        self.tapes: list[Tape] = []
        self.iterations = 0
        self.peak = 0
        self.last: Optional[tuple[int, int]] = None     # base, peak
        self.generation = 0
        self.used = 0                   # the number of its last iteration
        self.renewals = 0               # for blocks that no proof has met

    def restart(self, generation: int) -> None:
        """Learn again: other candidates, or a budget that is too small."""
        self.state = "prove"
        self.rounds = 0
        self.tapes.clear()
        self.generation = generation

    def find(self, shapes: Shapes) -> Optional[Tape]:
        """The smallest tape that is at least as large as these inputs."""
        fitting = [t for t in self.tapes if covers(t.shapes, shapes)]
        if not fitting:
            return None
        tape = min(fitting, key=lambda t: t.profile["size"])
        self.tapes.remove(tape)
        self.tapes.append(tape)
        return tape

    def keep_tape(self, tape: Tape) -> None:
        """Remember a tape; it replaces those it covers."""
        self.tapes = [t for t in self.tapes if t.shapes != tape.shapes]
        self.tapes.append(tape)
        del self.tapes[:-_TAPES]

    @property
    def latest(self) -> Optional[Tape]:
        """The tape used last."""
        return self.tapes[-1] if self.tapes else None
