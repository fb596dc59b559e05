"""Frames: what becomes of the tensors that autograd saves in one call.

While a selected module's forward runs, a pair of saved-tensor hooks puts every
saved tensor into a *handle*. Autograd owns the handles; the frame only refers
to them weakly, so that a kept frame frees exactly when plain autograd would.
When the forward returns, the frame is

* kept: the handles keep their tensors (measuring costs nothing more);
* dropped: the handles lose the tensors that the frame alone holds, and the
  first of them that backward asks for makes the frame recompute them;
* held for a proof: as kept, but the first one asked for makes the frame
  recompute all of them and compare; backward then gets the recomputed ones if
  every bit agrees, and the originals if not. Short of memory, the originals
  wait in a file (``spill``).
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import plain, tensors
from .note import Note
from .spill import SpilledTensor

if TYPE_CHECKING:
    from .blocks import Call
    from .bridge import Agent
    from .probe import Look
    from .spill import Spill

KEEP, DROP, PROVE, MEASURE = "keep", "drop", "prove", "measure"

_autograd = torch._C._autograd
_push_hooks = plain.push_counted if plain.counts_hooks else plain.push_hooks
_pop_hooks = plain.pop_counted if plain.counts_hooks else plain.pop_hooks
_keeps_graph: Optional[Callable[[], bool]] = getattr(
    _autograd, "_get_current_graph_task_keep_graph", None)
_nothing = contextlib.nullcontext()
_in_backward: Callable[[], int] = torch._C._current_graph_task_id


class Stop(BaseException):
    """Ends a recompute early; no ``except Exception`` of the job swallows it."""


class MismatchError(RuntimeError):
    """A trusted block's recompute gave other bits than its forward."""


class Handle:
    """One saved tensor, owned by the autograd node that saved it."""

    __slots__ = ("frame", "index", "tensor", "version", "spilled", "__weakref__")

    def __init__(self, frame: "Frame", index: int, tensor: torch.Tensor) -> None:
        self.frame: Optional[Frame] = frame
        self.index = index
        # An output would hold its own node through grad_fn for ever.
        leaf = tensor.is_leaf and tensor.requires_grad
        self.tensor: Optional[torch.Tensor] = tensor if leaf else tensor.detach()
        self.version = tensor._version
        self.spilled: Optional[SpilledTensor] = None


class Frame:
    """One call of a selected module whose saved tensors are in our hands."""

    __slots__ = ("call", "original", "module", "note", "handles", "state",
                 "outside", "digests", "stopped", "__weakref__")

    def __init__(self, call: "Call", original: Any, module: torch.nn.Module,
                 note: Optional[Note]) -> None:
        self.call = call
        self.original = original
        self.module: Optional[torch.nn.Module] = module
        self.note = note
        self.handles: list[weakref.ref[Handle]] = []
        self.state = KEEP
        self.outside: set[int] = set()
        self.digests: dict[int, "Digest"] = {}
        self.stopped = False

    def pack(self, tensor: torch.Tensor) -> Handle:
        """Autograd saves a tensor."""
        handle = Handle(self, len(self.handles), tensor)
        self.handles.append(weakref.ref(handle))
        return handle

    def alive(self) -> list[Handle]:
        """The handles that autograd still holds, in the order of saving."""
        return [h for h in (r() for r in self.handles) if h is not None]

    def own(self) -> list[Handle]:
        """The handles whose tensors only this frame holds and may give up."""
        return [h for h in self.alive()
                if h.tensor is not None and tensors.droppable(h.tensor)
                and tensors.address(h.tensor) not in self.outside]

    def settle(self) -> None:
        """From now on as plain autograd: nothing is left to recompute with."""
        self.state = KEEP
        self.note = None
        self.module = None


class Digest:
    """What is remembered of a dropped tensor: its form and a sum of its bits."""

    __slots__ = ("dtype", "shape", "stride", "value")

    def __init__(self, tensor: torch.Tensor, stride: int, value: int) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.stride = stride
        self.value = value


class Watcher:
    """What frames tell about themselves, and what they ask. All may be overridden."""

    def forward_begins(self, call: "Call") -> None:
        """Just before the job's forward."""

    def forward_ends(self, frame: Frame) -> None:
        """The forward has returned; nothing is dropped yet."""

    def frame_decided(self, frame: Frame) -> None:
        """The frame was kept, dropped or is held for a proof."""

    def looked(self, frame: Frame, look: "Look") -> bool:
        """The look at a first forward is over; False: keep this frame."""
        return True

    def failed(self, error: Exception) -> None:
        """Our own code raised; the job goes on as if it had not."""
        raise error

    def dropping(self, frame: Frame, addresses: list[int]) -> None:
        """These storages are about to lose the frame's hold."""

    def recompute_begins(self, frame: Frame) -> None:
        """Backward needs the frame."""

    def recompute_ends(self, frame: Frame) -> None:
        """All that was needed is there again."""

    def wants_proof(self, frame: Frame) -> bool:
        """Whether to prove this frame now (False: keep it as it is)."""
        return True

    def proven(self, frame: Frame, reason: Optional[str], detail: str) -> None:
        """A proof's outcome; reason None: every bit agreed."""

    def mismatch(self, frame: Frame, detail: str) -> None:
        """A trusted block's recompute differed; raise to end the job."""

    def digest_stride(self, frame: Frame) -> Optional[int]:
        """0: digest every byte; n: a line every n bytes; None: no digest."""
        return 0


class Frames:
    """Makes frames and answers autograd. One instance serves all threads."""

    def __init__(self, agent: "Agent", watcher: Watcher,
                 spill: Optional["Spill"] = None) -> None:
        self._agent = agent
        self._watcher = watcher
        self._spill = spill
        self._lock = threading.RLock()
        self.dropped: weakref.WeakSet[Frame] = weakref.WeakSet()

    def after_fork(self) -> None:
        """A lock that another thread held in the parent is free in the child."""
        self._lock = threading.RLock()

    # -- forward -------------------------------------------------------------

    def forward(self, call: "Call", mode: str, look: Optional["Look"], original: Any,
                module: torch.nn.Module, args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> Any:
        """Run original(module, ...) in a frame and decide what becomes of it.

        look, if given, watches the forward; what it finds can only turn the
        frame into a kept one. An error of our own leaves a plain or a kept call.
        """
        try:
            frame = self._prepare(call, mode, look, original, module, args, kwargs)
        except Exception as error:
            self._watcher.failed(error)
            return original(module, *args, **kwargs)
        begin = time.perf_counter()
        _push_hooks(frame.pack, self.unpack)
        try:
            with look or _nothing:
                result = original(module, *args, **kwargs)
        finally:
            _pop_hooks()
        call.forward_ms = 1e3 * (time.perf_counter() - begin)
        try:
            self._finish(frame, mode, look, args, kwargs, result)
        except Exception as error:
            if frame.state != DROP:
                frame.settle()
            self._watcher.failed(error)
        return result

    def _prepare(self, call: "Call", mode: str, look: Optional["Look"], original: Any,
                 module: torch.nn.Module, args: tuple[Any, ...],
                 kwargs: dict[str, Any]) -> Frame:
        note = None
        if mode in (DROP, PROVE):
            note = Note.take(call.block.scope, module, args, kwargs)
            if look is not None:
                look.copied = note.copied()
        frame = Frame(call, original, module, note)
        if mode != KEEP:
            frame.outside = call.block.own_addresses()
            frame.outside.update(map(tensors.address,
                                     tensors.tensors_in((args, kwargs))))
        self._watcher.forward_begins(call)
        return frame

    def _finish(self, frame: Frame, mode: str, look: Optional["Look"],
                args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """The forward has returned: decide."""
        frame.outside.update(map(tensors.address, tensors.tensors_in(result)))
        if frame.note is not None and self._changed_late(frame, args, kwargs):
            mode = MEASURE
        self._watcher.forward_ends(frame)
        if look is not None and not self._watcher.looked(frame, look):
            mode = MEASURE
        self._decide(frame, mode)
        self._watcher.frame_decided(frame)

    @staticmethod
    def _changed_late(frame: Frame, args: Any, kwargs: Any) -> bool:
        """Whether a forward wrote to what its look had found it only to read."""
        scope, note, module = frame.call.block.scope, frame.note, frame.module
        assert note is not None and module is not None
        if scope.deep:      # what it put into its arguments is an output as well
            frame.outside.update(map(tensors.address,
                                     tensors.tensors_in((args, kwargs))))
        changed = note.changed_versions()
        if not changed or not scope.is_known(module):
            return False
        scope.changing |= {name[len("buffer "):] for name in changed
                           if name.startswith("buffer ")}
        return True

    def _decide(self, frame: Frame, mode: str) -> None:
        call = frame.call
        if mode == PROVE:
            frame.state = PROVE
        elif mode == DROP:
            self._drop(frame)
        else:
            frame.settle()
        if mode in (MEASURE, PROVE):
            call.measure([tensors.address(h.tensor) for h in frame.own()
                          if h.tensor is not None], self._agent)

    def _drop(self, frame: Frame) -> None:
        held = frame.own()
        if not held:
            frame.call.saves_nothing = True
            frame.settle()
            return
        stride = self._watcher.digest_stride(frame)
        if stride is not None:
            frame.digests = self._digest(held, stride)
        self._watcher.dropping(frame, list(dict.fromkeys(
            tensors.address(h.tensor) for h in held if h.tensor is not None)))
        frame.state = DROP
        for handle in held:
            handle.tensor = None
        self.dropped.add(frame)

    # -- backward ------------------------------------------------------------

    def unpack(self, handle: Handle) -> torch.Tensor:
        """Autograd asks for a saved tensor."""
        frame = handle.frame
        assert frame is not None
        if frame.state == PROVE or handle.tensor is None:
            with self._lock:
                self._fetch(frame, handle)
        tensor = handle.tensor
        if tensor is None:
            raise MismatchError(f"saved tensor {handle.index} was not recomputed")
        if tensor._version != handle.version:
            raise RuntimeError(_modified(tensor, handle.version))
        return tensor

    def _fetch(self, frame: Frame, handle: Handle) -> None:
        if frame.state == PROVE:
            if self._watcher.wants_proof(frame) and not _touched(frame):
                self._prove(frame)
            else:
                self.restore_spilled(frame)
                frame.settle()
        if handle.tensor is None:
            self._refill(frame)

    def _refill(self, frame: Frame) -> None:
        """Recompute every dropped tensor that autograd may still ask for."""
        empty = [h for h in frame.alive() if h.tensor is None]
        self._watcher.recompute_begins(frame)
        begin = time.perf_counter()
        values = self._recompute(frame, max(h.index for h in empty))
        wrong = self._differences(frame, empty, values)
        frame.call.recompute_ms = 1e3 * (time.perf_counter() - begin)
        frame.call.recomputes += 1
        self._watcher.recompute_ends(frame)
        if wrong:
            self._watcher.mismatch(frame, wrong)
        _fill(empty, values)
        if _in_backward() != -1 and (_keeps_graph is None or _keeps_graph()):
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: _empty(empty))

    def rematerialise(self) -> None:
        """Give every dropped frame its tensors back, for good.

        Called before parameters change: a later backward still needs the
        values of now.
        """
        for frame in list(self.dropped):
            with self._lock:
                if frame.state == DROP and any(h.tensor is None for h in frame.alive()):
                    with torch.enable_grad():
                        self._refill(frame)
                    frame.settle()

    # -- proof ---------------------------------------------------------------

    def _prove(self, frame: Frame) -> None:
        last = len(frame.handles) - 1
        originals = frame.alive()
        self._watcher.recompute_begins(frame)
        begin = time.perf_counter()
        reason, detail, values = None, "", {}
        try:
            values = self._recompute(frame, last)
        except Exception as error:
            reason, detail = "recompute_raises", f"{type(error).__name__}: {error}"
        frame.call.recompute_ms = 1e3 * (time.perf_counter() - begin)
        frame.call.recomputes += 1
        if reason is None:
            detail = self._compare(frame, originals, values)
            reason = "recompute_differs" if detail else None
        if reason is None:
            _fill([h for h in originals if self._replaceable(frame, h)], values)
        else:
            self.restore_spilled(frame)
        self._watcher.recompute_ends(frame)
        frame.settle()
        self._watcher.proven(frame, reason, detail)

    @staticmethod
    def _replaceable(frame: Frame, handle: Handle) -> bool:
        if handle.spilled is not None:
            return True
        tensor = handle.tensor
        return (tensor is not None and tensors.droppable(tensor)
                and tensors.address(tensor) not in frame.outside)

    def _compare(self, frame: Frame, originals: list[Handle],
                 values: dict[int, torch.Tensor]) -> str:
        """What differs between originals and recomputed values, or ""."""
        if len(values) != len(frame.handles):
            return (f"{len(values)} tensors were saved by the recompute, "
                    f"{len(frame.handles)} by the forward")
        for handle in originals:
            original = handle.tensor
            if handle.spilled is not None:
                original = handle.spilled.look()
            value = values[handle.index]
            if original is None or not tensors.droppable(original):
                continue
            if not tensors.same_form(original, value):
                return f"saved tensor {handle.index} has another form ({_form(value)})"
            same = tensors.address(original) == tensors.address(value)
            if not same and not tensors.same_bits(original, value):
                return f"saved tensor {handle.index} ({_form(value)}) has other bits"
        return ""

    # -- spill ---------------------------------------------------------------

    def spill(self, frame: Frame) -> int:
        """Move a held frame's originals to the spill; the bytes given back."""
        if self._spill is None or frame.state != PROVE:
            return 0
        held = [h for h in frame.own() if h.spilled is None]
        moved = self._spill.write([h.tensor for h in held if h.tensor is not None])
        if moved is None:
            return 0
        for handle, spilled in zip(held, moved):
            handle.spilled, handle.tensor = spilled, None
        return sum({s.storage: s.storage.size for s in moved}.values())

    def restore_spilled(self, frame: Frame) -> None:
        """Bring spilled originals back into tensor memory."""
        restored: dict[Any, torch.Tensor] = {}
        for handle in frame.alive():
            if handle.spilled is not None:
                handle.tensor = handle.spilled.restore(restored)
                handle.version = handle.tensor._version
                handle.spilled = None

    # -- recompute -----------------------------------------------------------

    def _recompute(self, frame: Frame, last: int) -> dict[int, torch.Tensor]:
        """Run the forward again up to the last saved tensor that is needed.

        Returns the saved tensors by index, detached.
        """
        values: dict[int, torch.Tensor] = {}
        frame.stopped = False

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            # A node must not hold its own output, so never the tensor itself.
            tensor = tensor.detach()
            if not frame.stopped:
                values[len(values)] = tensor
                if len(values) > last:
                    frame.stopped = True
                    raise Stop
            return tensor

        note, module = frame.note, frame.module
        assert note is not None and module is not None
        present = note.enter()
        try:
            _push_hooks(pack, _as_is)
            try:
                note.call(frame.original, module)
            except BaseException:
                # A scripted child turns Stop into an exception of its own.
                if not frame.stopped:
                    raise
            finally:
                _pop_hooks()
        finally:
            note.leave(present)
        return values

    def _digest(self, handles: list[Handle], stride: int) -> dict[int, Digest]:
        pairs = [(h.index, h.tensor) for h in handles if h.tensor is not None]
        sums = self._sums([t for _, t in pairs], stride)
        return {i: Digest(t, stride, s) for (i, t), s in zip(pairs, sums)}

    def _sums(self, values: list[torch.Tensor], stride: int) -> list[int]:
        ranges = [tensors.dense_range(t) for t in values]
        dense = list(dict.fromkeys(r for r in ranges if r is not None))
        sums = dict(zip(dense, self._agent.digests(
            [a for a, _ in dense], [n for _, n in dense], stride) if dense else ()))
        return [sums[r] if r is not None else self._agent.digest_strided(
                    t.data_ptr(), t.element_size(), t.shape, t.stride())
                for r, t in zip(ranges, values)]

    def _differences(self, frame: Frame, handles: list[Handle],
                     values: dict[int, torch.Tensor]) -> str:
        for handle in handles:
            if handle.index not in values:
                return (f"{len(values)} tensors were saved by the recompute, "
                        f"{len(frame.handles)} by the forward")
        known = [(h.index, frame.digests[h.index]) for h in handles
                 if h.index in frame.digests]
        if not known:
            changed = frame.note.changed_versions() if frame.note else []
            return "an input or a parameter was written to since" if changed else ""
        for index, digest in known:
            value = values[index]
            if value.dtype != digest.dtype or value.shape != digest.shape:
                return f"saved tensor {index} has another form ({_form(value)})"
        sums = self._sums([values[i] for i, _ in known], known[0][1].stride)
        for (index, digest), now in zip(known, sums):
            if now != digest.value:
                return f"saved tensor {index} ({_form(values[index])}) has other bits"
        return ""


def _as_is(value: Any) -> Any:
    return value


def _fill(handles: list[Handle], values: dict[int, torch.Tensor]) -> None:
    for handle in handles:
        value = values.get(handle.index)
        if value is not None:
            handle.tensor = value
            handle.version = value._version
            handle.spilled = None
    values.clear()


def _empty(handles: list[Handle]) -> None:
    """After a backward that keeps its graph: drop again."""
    for handle in handles:
        frame = handle.frame
        if frame is not None and frame.state == DROP:
            handle.tensor = None


def _touched(frame: Frame) -> bool:
    """Whether an original was written to since: autograd is going to raise."""
    return any(h.tensor is not None and h.tensor._version != h.version
               for h in frame.alive())


def _form(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).replace("torch.", "")
    return f"{name}{list(tensor.shape)}"


def _modified(tensor: torch.Tensor, version: int) -> str:
    """What autograd says of a saved tensor that was written to."""
    return ("one of the variables needed for gradient computation has been modified "
            f"by an inplace operation: [{tensor.type()} {list(tensor.shape)}] is at "
            f"version {tensor._version}; expected version {version} instead.")
