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

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import plain, tensors
from .diagnose import Difference, explain
from .mute import mute
from .note import Note
from .spill import SpilledTensor
from .stack import room

if TYPE_CHECKING:
    from .blocks import Call
    from .bridge import Agent
    from .probe import Look
    from .spill import Spill

_ref = weakref.ref
_now = time.perf_counter

KEEP, DROP, PROVE, MEASURE = "keep", "drop", "prove", "measure"

_autograd = torch._C._autograd
_push_hooks, _pop_hooks = plain.push, plain.pop
_keeps_graph: Optional[Callable[[], bool]] = getattr(
    _autograd, "_get_current_graph_task_keep_graph", None)
_LIGHT = 1 << 16     # bytes
_MANY = 64
_in_backward: Callable[[], int] = torch._C._current_graph_task_id


class Stop(BaseException):
    """Ends a recompute early; no ``except Exception`` of the job swallows it.

    Where all that is saved is small it costs more than what is left to do.
    """


class MismatchError(RuntimeError):
    """A trusted block's recompute gave other bits than its forward."""


class Handle:
    """One saved tensor, owned by the autograd node that saved it."""

    __slots__ = ("frame", "index", "tensor", "version", "__weakref__")

    frame: "Frame"
    index: int
    tensor: Optional[torch.Tensor]
    version: int


class Frame:
    """One call of a selected module whose saved tensors are in our hands."""

    __slots__ = ("call", "original", "module", "note", "handles", "state",
                 "outside", "digests", "spilled", "light", "__weakref__")

    def __init__(self, call: "Call", original: Any, module: torch.nn.Module) -> None:
        self.call = call
        self.original = original
        self.module: Optional[torch.nn.Module] = module
        self.note: Optional[Note] = None
        self.handles: list[weakref.ref[Handle]] = []
        self.state = KEEP
        self.outside: set[int] = set()
        self.digests: Optional[Digests] = None
        self.spilled: dict[int, SpilledTensor] = {}
        self.light = False

    def packer(self) -> Callable[[torch.Tensor], Handle]:
        """What is called whenever autograd saves a tensor."""
        handles = self.handles
        append = handles.append

        def pack(tensor: torch.Tensor) -> Handle:
            handle = Handle()
            handle.frame = self
            handle.index = len(handles)
            # An output would hold its own node through grad_fn for ever.
            handle.tensor = tensor if tensor.is_leaf else tensor.detach()
            handle.version = tensor._version
            append(_ref(handle))
            return handle

        return pack

    def alive(self) -> list[Handle]:
        """The handles that autograd still holds, in the order of saving."""
        return [h for r in self.handles if (h := r()) is not None]

    def own(self) -> list[Handle]:
        """The handles whose tensors only this frame holds and may give up."""
        outside = self.outside
        return [h for r in self.handles
                if (h := r()) is not None and (t := h.tensor) is not None
                and tensors.address(t) not in outside and tensors.droppable(t)]

    def weigh(self, held: list[torch.Tensor]) -> None:
        """See whether the tensors that are recomputed and what they are computed
        with are small.
        """
        assert self.note is not None
        self.light = tensors.size(held) + self.note.parameter_bytes < _LIGHT

    def settle(self) -> None:
        """From now on as plain autograd: nothing is left to recompute with."""
        self.state = KEEP
        self.note = None
        self.module = None


class Digests:
    """What is remembered of dropped tensors: their forms and sums of their bits."""

    __slots__ = ("indices", "forms", "sums", "stride")

    def __init__(self, indices: list[int], forms: tensors.Forms, sums: list[int],
                 stride: int) -> None:
        self.indices = indices
        self.forms = forms
        self.sums = sums
        self.stride = stride

    def of(self, indices: list[int]) -> "Digests":
        """Only those of tensors with these indices."""
        if indices == self.indices:
            return self
        places = [*map(self.indices.index, indices)]
        dtypes, shapes = self.forms
        forms = [dtypes[i] for i in places], [shapes[i] for i in places]
        return Digests(indices, forms, [self.sums[i] for i in places], self.stride)


class Watcher:
    """What frames tell about themselves, and what they ask. All may be overridden."""

    def forward_begins(self, call: "Call") -> None:
        """Just before the job's forward."""

    def look(self, original: Any, module: torch.nn.Module, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> Optional["Look"]:
        """A look, if wanted, at a block that has not run in this form before."""
        return None

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

    def dropping(self, frame: Frame, held: list[Handle]) -> None:
        """The tensors in these handles are about to be dropped."""

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
        self.dropped: list[weakref.ref[Frame]] = []     # some have died since
        self._many = _MANY

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
            frame = Frame(call, original, module)
            look = self._prepare(frame, mode, look, args, kwargs)
        except Exception as error:
            self._watcher.failed(error)
            return original(module, *args, **kwargs)
        begin = _now()
        _push_hooks(frame.packer(), self.unpack_held if mode == PROVE else self.unpack)
        try:
            if look is None:
                result = original(module, *args, **kwargs)
            else:
                with look:
                    result = original(module, *args, **kwargs)
        finally:
            _pop_hooks()
        call.forward_ms = 1e3 * (_now() - begin)
        try:
            self._finish(frame, mode, look, args, kwargs, result)
        except Exception as error:
            if frame.state != DROP:
                frame.settle()
            self._watcher.failed(error)
        return result

    def _prepare(self, frame: Frame, mode: str, look: Optional["Look"],
                 args: tuple[Any, ...], kwargs: dict[str, Any]) -> Optional["Look"]:
        """Note what a recompute needs; the look to take, if any."""
        call, module = frame.call, frame.module
        assert module is not None
        if mode in (DROP, PROVE):
            frame.note = note = Note.take(call.block.scope, module, args, kwargs)
            frame.outside = note.addresses(args, kwargs)
            if look is None and not note.known:
                look = self._watcher.look(frame.original, module, args, kwargs)
            if look is not None:
                look.copied = note.copied()
        elif mode == MEASURE:
            frame.outside = call.block.own_addresses()
            frame.outside.update(map(tensors.address,
                                     tensors.tensors_in((args, kwargs))))
        self._watcher.forward_begins(call)
        return look

    def _finish(self, frame: Frame, mode: str, look: Optional["Look"],
                args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """The forward has returned: decide."""
        if type(result) is torch.Tensor:
            frame.outside.add(tensors.address(result))
        else:
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
            frame.weigh([h.tensor for h in frame.own() if h.tensor is not None])
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
        values: list[Any] = [h.tensor for h in held]
        frame.weigh(values)
        stride = self._watcher.digest_stride(frame)
        if stride is not None:
            frame.digests = Digests([h.index for h in held], tensors.forms(values),
                                    self._sums(values, stride), stride)
        self._watcher.dropping(frame, held)
        frame.state = DROP
        for handle in held:
            handle.tensor = None
        self.dropped.append(_ref(frame))
        if len(self.dropped) > self._many:
            with self._lock:
                self._forget()

    def _forget(self) -> None:
        """Leave out the frames that have died or are dropped no more."""
        known = self.dropped[:]
        self.dropped[:len(known)] = [
            r for r in known if (f := r()) is not None and f.state == DROP]
        self._many = 2 * len(self.dropped) + _MANY

    # -- backward ------------------------------------------------------------

    def unpack(self, handle: Handle) -> torch.Tensor:
        """Autograd asks for a saved tensor."""
        tensor = handle.tensor
        if tensor is None:
            with self._lock:
                if handle.tensor is None:
                    self._refill(handle.frame)
            tensor = handle.tensor
            if tensor is None:
                raise MismatchError(f"saved tensor {handle.index} was not recomputed")
        if tensor._version != handle.version:
            raise RuntimeError(_modified(tensor, handle.version))
        return tensor

    def unpack_held(self, handle: Handle) -> torch.Tensor:
        """The same for a tensor of a frame that was to be proven."""
        frame = handle.frame
        with self._lock:
            if frame.state == PROVE:
                if self._watcher.wants_proof(frame) and not _touched(frame):
                    self._prove(frame)
                else:
                    self.restore_spilled(frame)
                    frame.settle()
        return self.unpack(handle)

    def _refill(self, frame: Frame) -> None:
        """Recompute every dropped tensor that autograd may still ask for."""
        empty = [h for h in frame.alive() if h.tensor is None]
        indices = [h.index for h in empty]
        self._watcher.recompute_begins(frame)
        begin = _now()
        saved = self._recompute(frame, indices[-1])
        values = [saved[i] for i in indices if i < len(saved)]
        wrong = self._differences(frame, indices, values, len(saved))
        frame.call.recompute_ms = 1e3 * (_now() - begin)
        frame.call.recomputes += 1
        self._watcher.recompute_ends(frame)
        if wrong:
            self._watcher.mismatch(frame, explain(frame, wrong, indices, values))
        for handle, value in zip(empty, values):
            handle.tensor = value
            handle.version = value._version
        if _in_backward() != -1 and (_keeps_graph is None or _keeps_graph()):
            # Weakly: without keeping its graph, autograd lets go of them earlier.
            later = [weakref.ref(handle) for handle in empty]
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: _empty(later))

    def rematerialise(self, changing: Optional[set[int]] = None) -> None:
        """Give every dropped frame its tensors back, for good.

        Called before parameters change: a later backward still needs the
        values of now. changing: their ids, if no other frames are concerned.
        """
        for frame in [f for r in self.dropped[:] if (f := r()) is not None]:
            note = frame.note
            if changing is not None and note is not None and not note.reads(changing):
                continue
            with self._lock:
                if frame.state == DROP and any(h.tensor is None for h in frame.alive()):
                    with torch.enable_grad():
                        self._refill(frame)
                    frame.settle()
        with self._lock:
            self._forget()

    # -- proof ---------------------------------------------------------------

    def _prove(self, frame: Frame) -> None:
        last = len(frame.handles) - 1
        originals = frame.alive()
        self._watcher.recompute_begins(frame)
        begin = _now()
        reason, detail = None, Difference()
        values: list[torch.Tensor] = []
        try:
            values = self._recompute(frame, last)
        except Exception as error:
            reason = "recompute_raises"
            detail = Difference(f"{type(error).__name__}: {error}")
        frame.call.recompute_ms = 1e3 * (_now() - begin)
        frame.call.recomputes += 1
        if reason is None:
            detail = self._compare(frame, originals, values)
            reason = "recompute_differs" if detail else None
        if reason is None:
            for handle in originals:
                if self._replaceable(frame, handle):
                    handle.tensor = value = values[handle.index]
                    handle.version = value._version
            frame.spilled.clear()
        else:
            self.restore_spilled(frame)
        self._watcher.recompute_ends(frame)
        why = explain(frame, detail, [*range(len(values))], values)
        frame.settle()
        self._watcher.proven(frame, reason, why)

    @staticmethod
    def _replaceable(frame: Frame, handle: Handle) -> bool:
        if handle.index in frame.spilled:
            return True
        tensor = handle.tensor
        return (tensor is not None and tensors.droppable(tensor)
                and tensors.address(tensor) not in frame.outside)

    def _compare(self, frame: Frame, originals: list[Handle],
                 values: list[torch.Tensor]) -> Difference:
        """What differs between originals and recomputed values."""
        if len(values) != len(frame.handles):
            return _counts(len(values), frame)
        for handle in originals:
            original = handle.tensor
            if handle.index in frame.spilled:
                original = frame.spilled[handle.index].look()
            value = values[handle.index]
            if original is None or not tensors.droppable(original):
                continue
            if not tensors.same_form(original, value):
                return _other_form(handle.index, _form(original), value)
            same = tensors.address(original) == tensors.address(value)
            if not same and not tensors.same_bits(original, value):
                return _other_bits(handle.index, value)
        return Difference()

    # -- spill ---------------------------------------------------------------

    def spill(self, frame: Frame) -> int:
        """Move a held frame's originals to the spill; the bytes given back."""
        if self._spill is None or frame.state != PROVE:
            return 0
        held = frame.own()
        moved = self._spill.write([h.tensor for h in held if h.tensor is not None])
        if moved is None:
            return 0
        for handle, spilled in zip(held, moved):
            frame.spilled[handle.index], handle.tensor = spilled, None
        return sum({s.storage: s.storage.size for s in moved}.values())

    def restore_spilled(self, frame: Frame) -> None:
        """Bring spilled originals back into tensor memory."""
        restored: dict[Any, torch.Tensor] = {}
        for handle in frame.alive():
            spilled = frame.spilled.pop(handle.index, None)
            if spilled is not None:
                handle.tensor = spilled.restore(restored)
                handle.version = handle.tensor._version
        frame.spilled.clear()

    # -- recompute -----------------------------------------------------------

    @staticmethod
    def _recompute(frame: Frame, last: int) -> list[torch.Tensor]:
        """Run the forward again up to the last saved tensor that is needed.

        Returns the saved tensors in their order, detached.
        """
        values: list[torch.Tensor] = []
        light = frame.light

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            # A node must not hold its own output, so never the tensor itself.
            tensor = tensor.detach()
            if len(values) <= last:
                values.append(tensor)
                if len(values) > last and not light:
                    raise Stop
            return tensor

        note, module = frame.note, frame.module
        assert note is not None and module is not None
        present = note.enter()
        try:
            _push_hooks(pack, _as_is)
            try:
                with room, mute():
                    note.call(frame.original, module)
            except (Stop, Exception):
                # A scripted child turns Stop into an exception of its own.
                if len(values) <= last:
                    raise
            finally:
                _pop_hooks()
        finally:
            note.leave(present)
        return values

    def _sums(self, values: list[torch.Tensor], stride: int) -> list[int]:
        ranges = tensors.dense_ranges(values)
        unique: dict[Any, None] = dict.fromkeys(ranges)
        unique.pop(None, None)          # those are digested one by one
        found = self._agent.digests([start for start, _ in unique],
                                    [size for _, size in unique],
                                    stride) if unique else []
        if len(found) == len(values):
            return found
        sums = dict(zip(unique, found))
        return [sums[r] if r is not None else self._agent.digest_strided(
                    t.data_ptr(), t.element_size(), t.shape, t.stride())
                for r, t in zip(ranges, values)]

    def _differences(self, frame: Frame, indices: list[int],
                     values: list[torch.Tensor], count: int) -> Difference:
        """What is wrong with the recomputed values of indices.

        count: how many tensors the recompute saved.
        """
        if len(values) < len(indices):
            return _counts(count, frame)
        if frame.digests is None:
            changed = frame.note.changed_versions() if frame.note else []
            return Difference("an input or a parameter was written to since"
                              if changed else "")
        then = frame.digests.of(indices)
        if tensors.forms(values) != then.forms:
            for index, value, dtype, shape in zip(indices, values, *then.forms):
                if (value.dtype, value.shape) != (dtype, shape):
                    return _other_form(index, _named(dtype, shape), value)
        sums = self._sums(values, then.stride)
        if sums != then.sums:
            for index, value, now, sum_ in zip(indices, values, sums, then.sums):
                if now != sum_:
                    return _other_bits(index, value)
        return Difference()


def _as_is(value: Any) -> Any:
    return value


def _empty(handles: list[weakref.ref[Handle]]) -> None:
    """After a backward that keeps its graph: drop again."""
    for handle in (ref() for ref in handles):
        if handle is not None and handle.frame.state == DROP:
            handle.tensor = None


def _touched(frame: Frame) -> bool:
    """Whether an original was written to since: autograd is going to raise."""
    return any(h.tensor is not None and h.tensor._version != h.version
               for h in frame.alive())


def _counts(count: int, frame: Frame) -> Difference:
    return Difference(f"{count} tensors were saved by the recompute, "
                      f"{len(frame.handles)} by the forward")


def _other_form(index: int, before: str, value: torch.Tensor) -> Difference:
    return Difference(f"saved tensor {index} has another form, {_form(value)}, "
                      f"it was {before}", index)


def _other_bits(index: int, value: torch.Tensor) -> Difference:
    return Difference(f"saved tensor {index} ({_form(value)}) has other bits", index)


def _form(tensor: torch.Tensor) -> str:
    return _named(tensor.dtype, tensor.shape)


def _named(dtype: torch.dtype, shape: Any) -> str:
    return f"{str(dtype).replace('torch.', '')}{list(shape)}"


def _modified(tensor: torch.Tensor, version: int) -> str:
    """What autograd says of a saved tensor that was written to."""
    return ("one of the variables needed for gradient computation has been modified "
            f"by an inplace operation: [{tensor.type()} {list(tensor.shape)}] is at "
            f"version {tensor._version}; expected version {version} instead.")
