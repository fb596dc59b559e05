"""Kinds of iterations, their tapes and their plans."""

from __future__ import annotations

import weakref
import zlib
from typing import Any, Iterable, Iterator, Optional

import torch

from . import tensors
from .blocks import Call
from .device import Device

Shapes = tuple[tuple[int, ...], ...]
_TAPES = 8
_CLEARLY = 1.01             # of what was predicted: more is not by chance
_MOST_WORDS = 8             # combinations of them for one class
_LONGEST_WORD = 32
_known_words: dict[type, set[tuple[str, ...]]] = {}

# Devices that autocast is set for, and what a key says of each.
_AUTOCAST = (("cpu", "autocast"), ("cuda", "cuda autocast"))


class Signature:
    """What tells one kind of root call from another.

    Attributes:
        key: root class, inputs' ranks and dtypes, flags and short words among the
            arguments, training, autocast, what is trained, gradients.
        trust: the same without the gradients: what trust in a block rests on.
        shapes: the inputs' shapes; a magnitude, not part of the key.
    """

    def __init__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        inputs = list(tensors.tensors_in((args, kwargs)))
        forms = ", ".join([*map(_form, inputs), *_words(module, args, kwargs)])
        modes = "" if module.training else " eval"
        for device, name in _AUTOCAST:
            if torch.is_autocast_enabled(device):
                modes += f" {name}({str(torch.get_autocast_dtype(device))[6:]})"
        parameters = [*module.parameters()]
        grads = any(p.grad is not None for p in parameters)
        modes += _trained([p.requires_grad for p in parameters])
        self.trust = f"{type(module).__name__}({forms}){modes}"
        self.key = self.trust + (" grads" if grads else "")
        self.shapes: Shapes = tuple(tuple(t.shape) for t in inputs)
        self.size = sum(t.numel() for t in inputs)


def _form(tensor: torch.Tensor) -> str:
    """Dtype and rank, and whether a gradient of it is asked for."""
    asks = " grad" if tensor.requires_grad else ""
    return f"{str(tensor.dtype)[6:]}[{tensor.dim()}]{asks}"


def _trained(asks: list[bool]) -> str:
    """Which of the parameters are, if not all."""
    if all(asks):
        return ""
    return f" {sum(asks)}/{len(asks)} trained ({zlib.crc32(bytes(asks)):08x})"


def _words(module: torch.nn.Module, args: Any, kwargs: Any) -> list[str]:
    """What may choose a path through a model: flags and words, unless models of
    its class have been called with too many of them.
    """
    found = [repr(value) for value in args if _is_word(value)]
    found += [f"{name}={value!r}" for name, value in kwargs.items() if _is_word(value)]
    known = _known_words.setdefault(type(module), set())
    if len(known) < _MOST_WORDS:
        known.add(tuple(found))
    return found if tuple(found) in known else []


def _is_word(value: Any) -> bool:
    return type(value) is bool or (type(value) is str and len(value) <= _LONGEST_WORD)


def covers(large: Shapes, small: Shapes) -> bool:
    """Whether no input of small is larger than that of large, in any dimension."""
    return len(large) == len(small) and all(
        len(a) == len(b) and all(m >= n for m, n in zip(a, b))
        for a, b in zip(large, small))


class Tape:
    """One device in a measured iteration with everything trusted dropped, and what
    the plan means there. Bytes throughout.
    """

    def __init__(self, device: Device, profile: dict[str, Any]) -> None:
        self.device = device
        self.profile = profile          # one entry of profile.json's "kinds"
        self.base: int = profile["segments"][0]["live"]
        self.plan: dict[str, Any] = {}  # one entry of plan.json's "plans"
        self.plan_base: int = self.base
        self.last_base = self.base
        self.margin = 0                 # left free below the budget
        self.relaxed = False            # that was made smaller, or must not be
        self.followed = 0               # iterations under the plan in force

    def predicted(self, base: int) -> int:
        """The plan's peak for an iteration that starts at base live bytes."""
        peak: int = self.plan["predicted_bytes"]
        return peak + base - self.plan_base

    @property
    def floor(self) -> int:
        """The lowest peak of any plan, for an iteration that starts like the last."""
        return self._moved(self.plan["floor_bytes"])

    @property
    def minimum(self) -> int:
        """The budget of a plan for the lowest peak, for such an iteration."""
        return self._moved(self.plan["budget_bytes"])

    def _moved(self, planned: int) -> int:
        return int(planned + self.last_base - self.plan_base)


class Tapes:
    """The tapes of one kind of iteration, each device's of an iteration of its own,
    and what is recomputed. A call is dropped or kept on all devices alike.

    Attributes:
        shapes: inputs up to this size are known to need no more.
        calls: in the order of their forwards, the same on each tape.
        planned: a plan is in force.
    """

    def __init__(self, shapes: Shapes, size: int, calls: list[Call]) -> None:
        self.shapes = shapes
        self.size = size
        self.calls = calls
        self.known = set(calls)
        self.each: list[Tape] = []
        self.planned = False
        self.recompute: set[Call] = set()

    def __iter__(self) -> Iterator[Tape]:
        return iter(self.each)

    def can_add(self, shapes: Shapes, calls: list[Call]) -> bool:
        """Whether an iteration made the same calls, with inputs of the same ranks."""
        return (calls == self.calls
                and [*map(len, shapes)] == [*map(len, self.shapes)])

    def add(self, tape: Tape, shapes: Shapes, size: int) -> None:
        """One more device, recorded with inputs of these shapes."""
        self.each.append(tape)
        self.shapes = tuple(tuple(map(min, a, b)) for a, b in zip(self.shapes, shapes))
        self.size = min(self.size, size)

    def adopt(self, plans: list[dict[str, Any]], bases: dict[Device, int]) -> bool:
        """Put a plan in force, each device's view of it; whether a decision changed."""
        chosen = {self.calls[i] for i in recomputed(plans)}
        changed = chosen != self.recompute or not self.planned
        for tape, plan in zip(self.each, plans):
            tape.plan, tape.plan_base = plan, bases[tape.device]
            if changed:
                tape.followed = 0
        self.planned, self.recompute = True, chosen
        return changed

    def exceeded(self, bases: dict[Device, int]) -> bool:
        """Whether the last iteration took clearly more than planned."""
        return any(tape.device.peaks.last - tape.device.overhead
                   > _CLEARLY * tape.predicted(bases[tape.device])
                   for tape in self.each)

    @property
    def feasible(self) -> bool:
        """Whether the plan in force holds the budget on every device."""
        return all(tape.plan["feasible"] for tape in self.each)

    @property
    def floors(self) -> list[int]:
        """The lowest peaks of any plan, when the one in force was made."""
        return [tape.plan["floor_bytes"] for tape in self.each]


def recomputed(plans: Iterable[dict[str, Any]]) -> set[int]:
    """The indices of the calls that any of these plans recomputes."""
    return {i for plan in plans for i, entry in enumerate(plan["decisions"])
            if entry["decision"] == "recompute"}


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
        self.devices: list[Device] = []
        self.tapes: list[Tapes] = []
        self.unfinished: Optional[Tapes] = None     # some devices are to come
        self.replaced: Optional[Tapes] = None       # the last before a restart
        self.iterations = 0
        self.peak = 0
        self.last: dict[Device, tuple[int, int]] = {}   # base, peak
        self.generation = 0
        self.used = 0                   # the number of its last iteration
        self.renewals = 0               # for blocks that no proof has met

    def restart(self, generation: int, must_prove: bool = False) -> None:
        """Learn again: other candidates or devices, or a budget that is too small."""
        self.state = "prove"
        self.rounds = 0
        self.replaced = self.latest
        self.tapes.clear()
        self.unfinished = None
        self.generation = generation
        self.must_prove |= must_prove

    def work_on(self, devices: list[Device]) -> bool:
        """Its iterations have turned out to be on these devices; whether tapes of
        fewer are to be made anew.
        """
        stale = devices != self.devices and self.state in ("tape", "planned")
        self.devices = devices
        if stale:
            self.restart(self.generation, must_prove=True)
        return stale

    def still_fits(self, bases: dict[Device, int], limit: int) -> bool:
        """Whether an iteration like the last that starts at these bytes would fit."""
        return all(last[1] + bases[device] - last[0] <= limit
                   for device, last in self.last.items() if device in bases)

    def find(self, shapes: Shapes) -> Optional[Tapes]:
        """The smallest tapes that are at least as large as these inputs."""
        fitting = [t for t in self.tapes if covers(t.shapes, shapes)]
        if not fitting:
            return None
        tapes = min(fitting, key=lambda t: t.size)
        self.tapes.remove(tapes)
        self.tapes.append(tapes)
        return tapes

    def next_device(self) -> Device:
        """Of which the next tape is to be."""
        have = len(self.unfinished.each) if self.unfinished else 0
        return self.devices[have]

    def keep_tape(self, tape: Tape, shapes: Shapes, size: int,
                  calls: list[Call]) -> Optional[Tapes]:
        """Remember a tape. If it was the last device's: the tapes of all, which replace
        those of the same shapes.
        """
        tapes = self.unfinished or Tapes(shapes, size, calls)
        self.unfinished = None
        if not tapes.can_add(shapes, calls):
            return None                 # another path through the model: from the start
        tapes.add(tape, shapes, size)
        if len(tapes.each) < len(self.devices):
            self.unfinished = tapes
            return None
        self.tapes = [t for t in self.tapes if t.shapes != tapes.shapes]
        self.tapes.append(tapes)
        del self.tapes[:-_TAPES]
        return tapes

    @property
    def latest(self) -> Optional[Tapes]:
        """The tapes used last. Those of before, as long as it learns again."""
        return self.tapes[-1] if self.tapes else self.replaced
