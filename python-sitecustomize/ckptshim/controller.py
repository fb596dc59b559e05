"""What happens to each call of a block, and where an iteration begins and ends.

``learning`` says how an iteration is to run: proven, recorded, planned or free.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Callable, Optional

import torch

from . import discover, interrupts, plain, tensors
from .blocks import Block, Call
from .bridge import Agent, Planner
from .candidates import Candidates
from .cupti import Cupti
from .device import Device
from .devices import Devices, together
from .events import Events
from .frame import DROP, MEASURE, PROVE, Frame, Handle
from .frames import Frames, MismatchError
from .iteration import Iteration, stamp
from .kinds import Signature
from .learning import Learning
from .noted import Noted, can_count
from .planning import Infeasible, Planning
from .probe import Look
from .ranges import Ranges
from .settings import Settings
from .spill import Spill
from .watcher import Watcher

_CALLS = 4096           # of one block in an iteration; more are plain
_PROBE_STRIDE = 1 << 16
_DETAIL = 400           # characters of what somebody else's error says


class _Local(threading.local):
    """What concerns the frames whose forwards a thread runs."""

    depth = 0
    plain: Optional[Block] = None   # the innermost one whose plain forward is running


class Controller(Watcher):
    """One per process. Methods are called by patched forwards and step hooks."""

    def __init__(self, agent: Agent, planner: Planner, settings: Settings,
                 events: Events) -> None:
        self.agent = agent
        self.settings = settings
        self.events = events
        spill = Spill(settings.spill, settings.device_memory,
                      lambda line: agent.log("info", line))
        self.frames = Frames(agent, self, spill)
        if settings.timing == "cupti" and not settings.rehearse:
            self.frames.clock.cupti = Cupti(agent)
        self.devices = Devices(agent, settings, self.frames)
        self.candidates = Candidates(settings.blocks, agent.log)
        self.planning = Planning(agent, planner, settings, events)
        self.learning = Learning(agent, settings, events, self.planning, self.devices,
                                 self.candidates)
        self.ranges = (Ranges(agent, self.candidates, events)
                       if settings.blocks == discover.NVTX else None)
        self.current: Optional[Iteration] = None
        self.iterations = 0
        self.broken = False
        self.has_optimizer = False      # one was built
        self.stepped = False            # Optimizer.step was called
        self.ending = False             # with the backward that is running
        self.learned: Callable[[], None] = lambda: None
        self.wall_ms = self.recompute_ms = 0.0
        self.planned = False            # the last iteration followed a plan
        self.local = _Local()
        self.look_again: Callable[[torch.nn.Module], bool] = lambda module: False

    # -- forwards ------------------------------------------------------------

    def root_enter(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """An outermost forward with gradients is about to run.

        Raises:
            RuntimeError: CKPT_ON_INFEASIBLE=raise and the budget cannot be met.
        """
        try:
            self._root_enter(module, args, kwargs)
        except Infeasible:
            raise
        except Exception as error:
            self.failed(error)

    def _root_enter(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        current = self.current
        if (current is not None and not self.ending
                and not self._hand_step_since(current)):
            if self.devices.join(current, module, args, kwargs) \
                    and current.kind.work_on(self.devices.now):
                current.irregular = True
            return
        if current is not None:
            self._finish()
        found = self.devices.of(module, args, kwargs)
        if found:
            self.current = self._begin(module, args, kwargs, found)

    def block_forward(self, block: Block, original: Any, module: torch.nn.Module,
                      args: Any, kwargs: Any) -> Any:
        """A registered module's forward inside an iteration."""
        current = self.current
        if (current is None or current.mode == "free" or block.opened or self.broken
                or block is self.local.plain):      # its class calls super().forward
            return original(module, *args, **kwargs)
        try:
            treated = None if plain.must_be_plain() else self._treat(
                current, block, module, original, args, kwargs)
        except Exception as error:
            self.failed(error)
            treated = None
        if treated is None:
            return self._plainly(block, original, module, args, kwargs)
        call, mode, look = treated
        if mode is None:
            return self._seen(current, call, original, module, args, kwargs)
        self.local.depth += 1
        try:
            return self.frames.forward(call, mode, look, original, module, args,
                                       kwargs)
        except BaseException:
            current.irregular = True
            raise
        finally:
            self.local.depth -= 1
            try:
                self.agent.block(0)
            except Exception as error:
                self.failed(error)

    def _treat(self, current: Iteration, block: Block, module: torch.nn.Module,
               original: Any, args: Any, kwargs: Any,
               ) -> Optional[tuple[Call, Optional[str], Optional[Look]]]:
        """A call's record, how to treat it (None: list it on the tape) and the look
        to take; None: leave it plain.
        """
        if plain.hooks_in_force():
            if not self.local.depth:
                block.reason = block.reason or "hooks_in_force"
            return None
        if len(current.calls) > _CALLS * len(self.candidates.by_module):
            current.irregular = True    # a loop of forwards without a step
            return None
        call = block.call(current)
        call.calls += 1
        mode = self._mode(current, block, call)
        if mode is None and not block.barred and current.trust not in block.status:
            current.unmet = True        # it was checkpointed by the job, say
        if mode is None:
            return (call, None, None) if current.mode == "tape" else None
        self._list(current, call)
        if mode == PROVE or current.mode == "tape":
            call.measure_boundary(args, kwargs, self.agent)
        if current.noted is not None:
            current.noted.given(args, kwargs)
        look = self.look(original, module, args, kwargs) if mode == PROVE else None
        return call, mode, look

    def _mode(self, current: Iteration, block: Block, call: Call) -> Optional[str]:
        """How to treat a call; None: plain."""
        if block.barred:
            return None
        if current.mode == "measure":
            return MEASURE
        if block.trusted(current.trust):
            if current.mode != "planned":
                return DROP
            assert current.tapes is not None
            if call in current.tapes.recompute:
                return DROP
            if call in current.tapes.known:
                return None
            current.strange += 1
            return DROP
        if current.mode == "prove" and block.open_question(current.trust):
            return PROVE
        return None

    @staticmethod
    def _list(current: Iteration, call: Call) -> None:
        call.index = len(current.calls)
        call.storages = []
        current.calls.append(call)

    def _plainly(self, block: Block, original: Any, module: torch.nn.Module, args: Any,
                 kwargs: Any) -> Any:
        """The forward itself; if it calls that of a base class, that is part of it."""
        local = self.local
        outer, local.plain = local.plain, block
        try:
            return original(module, *args, **kwargs)
        finally:
            local.plain = outer

    def _seen(self, current: Iteration, call: Call, original: Any,
              module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """A plain call that is listed on the tape.

        Its marks stand together at its end: other blocks may run inside it.
        """
        begin = self.frames.clock.start()
        result = self._plainly(call.block, original, module, args, kwargs)
        self.frames.clock.stop(begin, call, "forward_ms")
        self._list(current, call)
        for mark in "FED":
            self.agent.mark(mark, call.index)
        return result

    # -- what frames tell (Watcher) -------------------------------------------

    def forward_begins(self, call: Call) -> None:
        segment = self.agent.mark("F", call.index)
        current = self.current
        if current is not None and current.noted is not None:
            current.noted.look(segment, backward=False)
        self.agent.block(call.block.number)
        self.devices.block_begins()

    def look(self, original: Any, module: torch.nn.Module, args: Any,
             kwargs: Any) -> Look:
        return Look(module, original, args, kwargs)

    def forward_ends(self, frame: Frame) -> None:
        self.devices.block_ends()
        self.agent.mark("E", frame.call.index)

    def looked(self, frame: Frame, look: Look) -> bool:
        block = frame.call.block
        reason, detail = look.verdict(), look.detail
        block.scope.learn(look.changing, look.outside, reason is None)
        block.scope.deep |= look.wants_copies
        if reason is None and frame.inner and len(self.devices.now) > 1:
            # Backward has a thread for each device. One that ran this again would
            # wait for another, which may wait for what it recomputes.
            reason, detail = "global_effect", "a backward, on several devices"
        if reason is None:
            return True
        self._exclude(block, reason, detail, look.lasting)
        return False

    def dropping(self, frame: Frame, held: list[Handle]) -> None:
        if self.current is not None and self.current.mode == "tape":
            addresses = list(dict.fromkeys(
                tensors.address(h.tensor) for h in held if h.tensor is not None))
            frame.call.storages = self.agent.watch(addresses)
            if self.current.noted is not None:
                self.current.noted.dropped(frame)

    def frame_decided(self, frame: Frame) -> None:
        call, current = frame.call, self.current
        self.agent.mark("D", call.index)
        if current is None:
            return
        if frame.state == PROVE:
            if not frame.own():
                reason = "saves_nothing" if frame.handles else "no_gradient"
                call.block.exclude(current.trust, reason)
                frame.settle()
                return
            current.unproven.append(weakref.ref(frame))
            self.devices.relieve(current)

    def recompute_begins(self, frame: Frame) -> None:
        current = self.current
        if current is not None:
            current.backward = True
            if frame.state == PROVE and not self.frames.proofs.unreal and \
                    self.devices.short(self.devices.growth):
                current.spilled += self.frames.proofs.spill(frame)
            if not _listed(current, frame.call):
                current.irregular = True        # a graph of an earlier iteration
                return
            current.recomputing += 1
        segment = self.agent.mark("B", frame.call.index)
        if current is not None and current.noted is not None:
            current.noted.look(segment, backward=True)
        self.agent.block(frame.call.block.number)

    def recompute_ends(self, frame: Frame) -> None:
        self.recompute_ms += frame.call.recompute_ms
        self.agent.block(0)
        current = self.current
        if current is not None:
            if not _listed(current, frame.call):
                return
            current.recomputing -= 1
        self.agent.mark("R", frame.call.index)

    def wants_proof(self, frame: Frame) -> bool:
        current = self.current
        if current is None:
            return False
        current.backward = True
        return (self.settings.must_plan or current.spilled > 0 or current.proofs > 0
                or current.kind.must_prove
                or self.devices.was_short(2 * self.devices.growth))

    def proven(self, frame: Frame, reason: Optional[str], detail: str) -> None:
        current, block = self.current, frame.call.block
        if current is None:
            return
        current.proofs += 1
        if reason is None:
            if block.failed is not current:     # another call of it may have
                block.trust(current.trust)
            return
        current.failed += 1
        if block.scope.deep and block.scope.lean:
            block.scope.lean = False    # it reads what is inside its arguments
            return
        self._exclude(block, reason, detail)

    def _exclude(self, block: Block, reason: str, detail: str,
                 final: bool = False) -> None:
        trust = self.current.trust if self.current else ""
        block.exclude(trust, reason, final)
        block.failed = self.current
        line = f"{block.name or block.cls}: {reason} ({detail:.{_DETAIL}})"
        self.events.add(self.iterations, "proof", line)
        self.agent.log("info", line)

    def mismatch(self, call: Call, detail: str) -> None:
        block = call.block
        line = (f"{block.name or block.cls} ({block.cls}): the recompute differs from "
                f"the forward, {detail}")
        self.events.add(self.iterations, "mismatch", line)
        if self.settings.on_mismatch == "raise":
            raise MismatchError(f"ckptagent: {line}; no gradient was used "
                                "(CKPT_ON_MISMATCH=warn goes on)")
        self.agent.log("warning", f"{line}; the block is recomputed no more")
        if self.current is not None:
            block.exclude(self.current.trust, "recompute_differs", final=True)

    def digest_stride(self, frame: Frame) -> Optional[int]:
        current, proof = self.current, self.settings.proof
        if proof == "always" or current is None or current.mode == "tape":
            return 0
        if proof == "sample":
            calls = len(current.tapes.calls) if current.tapes else 1
            chosen = frame.call.index == self.iterations % max(1, calls)
            return 0 if chosen else _PROBE_STRIDE
        return None

    def failed(self, error: Exception) -> None:
        if interrupts.is_the_jobs(error):
            raise error
        self.stand_down(f"{type(error).__name__}: {error}")

    def stand_down(self, why: str) -> None:
        """Leave the job alone from here on; frames that exist stay exact."""
        if not self.broken:
            self.broken = True
            self.events.add(self.iterations, "stand_down", why)
            self.agent.log("warning", f"standing down: {why}")

    # -- iterations ----------------------------------------------------------

    def _begin(self, module: torch.nn.Module, args: Any, kwargs: Any,
               found: list[Device]) -> Iteration:
        if self.look_again(module):
            self.candidates.generation += 1        # the model has other parts now
        signature = Signature(module, args, kwargs)
        kind = self.learning.kind(module, signature)
        # And those that other roots have brought into its iterations.
        kind.work_on(together(kind.devices, found))
        self.devices.work_on(kind.devices)
        bases = self.devices.begin()
        mode, tapes = ("free", None) if self.broken else \
            self.learning.choose(kind, signature, bases)
        current = Iteration(kind, mode, bases)
        current.shapes, current.size = signature.shapes, signature.size
        current.tapes = tapes
        current.stamp = None if self.stepped else stamp(module)
        self.frames.clock.begin(mode in ("prove", "tape"))
        if mode == "tape":
            current.noted = Noted(self.agent) if can_count() else None
            self.devices.give_back()
            self.devices.begin()
            current.taped = kind.next_device()
            self.agent.tape_begin(current.taped.index)
        return current

    def _hand_step_since(self, current: Iteration) -> bool:
        """Whether a job that never calls Optimizer.step began its next iteration."""
        root = current.kind.root()
        if self.stepped or root is None:
            return root is None
        now = stamp(root)
        if self.has_optimizer:          # built, but never used so far
            return bool(now.versions != current.stamp.versions)
        return bool(current.backward or now != current.stamp)

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to change parameters.

        In a backward, from a hook on a parameter whose gradient is complete:
        what other blocks have dropped does not depend on it.
        """
        try:
            if self.frames.dropped:
                self.frames.rematerialise(
                    _changed_by(optimizer) if plain.in_backward() else None)
        finally:
            self.frames.proofs.read()

    def finish_after_backward(self) -> bool:
        """The iteration ends with the backward that is running; False: known."""
        if self.ending:
            return False
        self.ending = True
        torch.autograd.Variable._execution_engine.queue_callback(self._backward_over)
        return True

    def _backward_over(self) -> None:
        if self.ending:
            self.finish()

    def finish(self) -> None:
        """The iteration has ended: learn from it."""
        try:
            self._finish()
        except Exception as error:
            self.failed(error)

    def finish_first(self) -> None:
        """The job ends. A backward without a step was its only iteration."""
        current = self.current
        root = None if current is None else current.kind.root()
        if current is not None and not self.iterations and (current.backward or (
                root is not None and current.stamp is not None
                and stamp(root).gradients != current.stamp.gradients)):
            self.finish()

    def _finish(self) -> None:
        current, self.current = self.current, None
        self.planned = current is not None and current.mode == "planned"
        self.ending = False
        if current is None:
            self.iterations += 1        # its root could not be watched
            self.devices.measure()
            self.devices.begin()
            return
        if current.mode == "tape":
            self.agent.tape_end()
        if current.noted is not None:
            current.noted.close()
        self.frames.clock.read()
        self.iterations += 1
        self.devices.measure()
        self.wall_ms += 1e3 * (time.perf_counter() - current.begun)
        if self.ranges is not None:
            current.late = self.ranges.settle(self.devices.now)
        self.learning.note_peaks(current, self.iterations)
        if not self.settings.measure_only and not self.broken \
                and self.learning.learn(current, self.iterations):
            self.devices.give_back()    # the segments of the plan before
        self.learned()

    # -- processes -----------------------------------------------------------

    def after_fork(self) -> None:
        """A forked child starts afresh; it reports only if it trains."""
        self.frames.after_fork()
        if self.ranges is not None:
            self.ranges.after_fork()
        self.current = None
        self.iterations = 0
        self.devices.after_fork()
        self.events.clear()


def _changed_by(optimizer: torch.optim.Optimizer) -> set[int]:
    """The ids of the parameters that a step changes."""
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _listed(current: Iteration, call: Call) -> bool:
    """Whether a call is one of this iteration's."""
    return call.index < len(current.calls) and current.calls[call.index] is call
