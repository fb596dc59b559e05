"""Frames: what becomes of the tensors that autograd saves in one call.

While a selected module's forward runs, a pair of saved-tensor hooks puts every
saved tensor into a handle of a frame. When the forward returns, the frame is

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
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch

from . import plain, tensors
from .clock import Clock
from .diagnose import explain
from .frame import DROP, MEASURE, PROVE, Frame, Handle
from .note import Note
from .proof import Proofs
from .recompute import recompute
from .sums import Digester, Seen
from .watcher import Watcher

if TYPE_CHECKING:
    from .blocks import Call
    from .bridge import Agent
    from .probe import Look
    from .spill import Spill

_ref = weakref.ref

_autograd = torch._C._autograd
_push_hooks, _pop_hooks = plain.push, plain.pop
_keeps_graph: Optional[Callable[[], bool]] = getattr(
    _autograd, "_get_current_graph_task_keep_graph", None)
_MANY = 64
_in_backward: Callable[[], int] = torch._C._current_graph_task_id


class MismatchError(RuntimeError):
    """A trusted block's recompute gave other bits than its forward."""


class Frames:
    """Makes frames and answers autograd. One instance serves all threads."""

    def __init__(self, agent: "Agent", watcher: Watcher,
                 spill: Optional["Spill"] = None) -> None:
        self._agent = agent
        self._watcher = watcher
        self._digester = Digester(agent)
        self.clock = Clock()
        self.proofs = Proofs(watcher, self._digester, self.clock, spill)
        self._lock = threading.RLock()
        self.dropped: list[weakref.ref[Frame]] = []     # some have died since
        self._many = _MANY

    def after_fork(self) -> None:
        """A lock that another thread held in the parent is free in the child."""
        self._lock = threading.RLock()
        self.clock.after_fork()

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
            pack = frame.packer(self._watcher.failed,
                                self._digester if frame.stride == 0 else None)
            begin = self.clock.start()
            _push_hooks(pack, self.unpack_held if mode == PROVE else self.unpack)
        except Exception as error:
            self._watcher.failed(error)
            return original(module, *args, **kwargs)
        try:
            if look is None:
                result = original(module, *args, **kwargs)
            else:
                with look:
                    result = original(module, *args, **kwargs)
        finally:
            _pop_hooks()
        try:
            self.clock.stop(begin, call, "forward_ms")
            self._finish(frame, mode, look, args, kwargs, result)
        except Exception as error:
            if frame.state != DROP:
                self._keep(frame)
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
            if mode == DROP:
                frame.stride = self._watcher.digest_stride(frame)
            if look is None and not note.known:
                look = self._watcher.look(frame.original, module, args, kwargs)
            if look is not None:
                look.copied, look.generators = note.copied(), note.generators()
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
        if frame.stride is not None:
            frame.digests = self._digester.digests(
                [h.index for h in held], values, [h.sum for h in held], frame.stride)
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
                try:
                    if self._watcher.wants_proof(frame) and not frame.touched():
                        self.proofs.prove(frame)
                except Exception as error:
                    self._watcher.failed(error)
                if frame.state == PROVE:
                    self._keep(frame)
            elif frame.note is not None:        # it is not decided yet
                frame.inner = True
        return self.unpack(handle)

    def _keep(self, frame: Frame) -> None:
        """Give a frame what it holds, wherever that is; it is proven no more."""
        self.proofs.restore(frame)
        frame.settle()

    def _refill(self, frame: Frame) -> None:
        """Recompute every dropped tensor that autograd may still ask for.

        Nothing else has them: where that fails, once more.
        """
        try:
            self._recompute(frame)
        except MismatchError:
            raise
        except Exception as error:
            self._watcher.failed(error)
            self._recompute(frame)

    def _recompute(self, frame: Frame) -> None:
        empty = [h for h in frame.alive() if h.tensor is None]
        if not empty:
            return
        indices = [h.index for h in empty]
        self._watcher.recompute_begins(frame)
        begin = self.clock.start()
        seen = Seen(self._digester, indices if frame.stride == 0 else [])
        saved = recompute(frame, indices[-1], seen)
        values = [saved[i] for i in indices if i < len(saved)]
        wrong = self.proofs.differences(frame, indices, values, len(saved), seen.sums)
        self.clock.stop(begin, frame.call, "recompute_ms")
        frame.call.recomputes += 1
        if not wrong:
            self._fill(frame, empty, values)
        self._watcher.recompute_ends(frame)
        if wrong:
            self._watcher.mismatch(frame.call,
                                   explain(frame, wrong, indices, values))
            self._fill(frame, empty, values)

    @staticmethod
    def _fill(frame: Frame, empty: list[Handle], values: list[torch.Tensor]) -> None:
        """Give handles their tensors back: for one backward, or for good."""
        for handle, value in zip(empty, values):
            handle.tensor = value
            handle.version = value._version
        if _in_backward() == -1:
            return
        if _keeps_graph is None or _keeps_graph():
            # Weakly: without keeping its graph, autograd lets go of them earlier.
            later = [weakref.ref(handle) for handle in empty]
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: _empty(later))
        elif len(values) >= len(empty):
            frame.settle()      # its inputs are needed no more

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


def _empty(handles: list[weakref.ref[Handle]]) -> None:
    """After a backward that keeps its graph: drop again."""
    for handle in (ref() for ref in handles):
        if handle is not None and handle.frame.state == DROP:
            handle.tensor = None


def _modified(tensor: torch.Tensor, version: int) -> str:
    """What autograd says of a saved tensor that was written to."""
    return ("one of the variables needed for gradient computation has been modified "
            f"by an inplace operation: [{tensor.type()} {list(tensor.shape)}] is at "
            f"version {tensor._version}; expected version {version} instead.")
