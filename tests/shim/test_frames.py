"""Frames against plain torch, bit by bit."""

from __future__ import annotations

import cProfile
import gc
import sys
import threading
import weakref
from typing import Any, Callable, Optional

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ckptshim import frames, plain
from ckptshim.blocks import Block
from ckptshim.frame import DROP, KEEP, MEASURE, PROVE
from ckptshim.frames import Frames, MismatchError
from ckptshim.spill import Spill
from ckptshim.watcher import Watcher
from fake_agent import FakeAgent


class Layer(nn.Module):
    """Attention, dropout, batch norm: every kind of saved tensor and effect."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.BatchNorm1d(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v)
        y = self.norm(x.flatten(0, 1)).view_as(x)
        return x + self.down(F.dropout(torch.tanh(self.up(y)), 0.3, self.training))


class Net(nn.Module):
    """Three blocks whose forward goes through frames when asked to."""

    def __init__(self, block: Callable[[], nn.Module] = Layer) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Recorder(Watcher):
    def __init__(self) -> None:
        self.proofs: list[Optional[str]] = []
        self.details: list[str] = []
        self.refills = 0
        self.digest: Optional[int] = 0

    def proven(self, frame: Any, reason: Optional[str], detail: str) -> None:
        self.proofs.append(reason)
        self.details.append(detail)

    def recompute_begins(self, frame: Any) -> None:
        self.refills += 1

    def mismatch(self, call: Any, detail: str) -> None:
        raise MismatchError(detail)

    def digest_stride(self, frame: Any) -> Optional[int]:
        return self.digest


class Framed:
    """Routes the blocks of a net through frames, by instance, for a test."""

    def __init__(self, net: Net, mode: str, spill: Optional[Spill] = None) -> None:
        self.watcher = Recorder()
        self.frames = Frames(FakeAgent(), self.watcher, spill)  # type: ignore[arg-type]
        self.made: list[weakref.ref[Any]] = []
        self.mode = mode
        for number, module in enumerate(net.blocks):
            block = Block(f"blocks.{number}", "Net", module, number + 1, lambda _: None)
            self._route(module, block)

    def _route(self, module: nn.Module, block: Block) -> None:
        original = type(module).forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            call = block.call(object())
            return self.frames.forward(call, self.mode, None, original, module, args,
                                       kwargs)

        module.forward = forward  # type: ignore[method-assign]


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(4, 8, 16, generator=generator),
            torch.randn(4, 8, 16, generator=generator))


Train = Callable[[nn.Module, torch.Tensor, torch.Tensor], Any]


def backward(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    F.mse_loss(net(x), y).backward()


def backward_twice(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    out = net(x)
    F.mse_loss(out, y).backward(retain_graph=True)
    F.l1_loss(out, y).backward()


def second_order(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    slope, = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
    (slope - y).square().sum().backward()
    return slope


def chosen_inputs(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    wanted = [p for p in net.parameters()][2:5]
    return torch.autograd.grad(F.mse_loss(net(x), y), wanted)


def on_a_thread(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    loss = F.mse_loss(net(x), y)
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()


def under_autocast(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x)
    F.mse_loss(out.float(), y).backward()


def eval_before_backward(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    loss = F.mse_loss(net(x), y)
    net.eval()
    loss.backward()
    net.train()


WAYS: list[Train] = [backward, backward_twice, chosen_inputs, on_a_thread,
                     under_autocast, eval_before_backward]


def outcome(train: Train, mode: Optional[str], steps: int = 2,
            block: Callable[[], nn.Module] = Layer, spill: Optional[Spill] = None
            ) -> tuple[list[Any], Optional[Framed]]:
    """Everything that training leaves behind, with frames or without."""
    net = Net(block)
    framed = Framed(net, mode, spill) if mode else None
    x, y = data()
    torch.manual_seed(7)
    left: list[Any] = []
    for _ in range(steps):
        left.append(train(net, x, y))
    left += [p.grad for p in net.parameters()]
    left += list(net.buffers())
    left.append(torch.get_rng_state())
    return left, framed


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


@pytest.mark.parametrize("mode", [KEEP, MEASURE, DROP, PROVE])
@pytest.mark.parametrize("train", WAYS, ids=lambda f: f.__name__)
def test_training_leaves_the_same_bits_behind(train: Train, mode: str) -> None:
    plain, _ = outcome(train, None)
    framed, _ = outcome(train, mode)
    assert equal(plain, framed)


class Smooth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(x)))


@pytest.mark.parametrize("mode", [KEEP, DROP, PROVE])
def test_second_derivatives_are_the_same(mode: str) -> None:
    plain, _ = outcome(second_order, None, block=Smooth)
    framed, _ = outcome(second_order, mode, block=Smooth)
    assert equal(plain, framed)


def test_every_dropped_block_is_recomputed_once_a_backward() -> None:
    _, framed = outcome(backward, DROP)
    assert framed is not None and framed.watcher.refills == 6


def test_a_kept_graph_is_dropped_again_after_its_first_backward() -> None:
    _, framed = outcome(backward_twice, DROP, steps=1)
    assert framed is not None and framed.watcher.refills == 6


@pytest.mark.parametrize("keep", [False, True])
def test_a_recomputed_block_holds_its_inputs_only_for_a_graph_that_is_kept(
        keep: bool) -> None:
    net = Net()
    framed = Framed(net, DROP)
    x, y = data()
    loss = F.mse_loss(net(x), y)
    middle = framed.frames.dropped[1]
    held: list[bool] = []
    net.blocks[1].down.weight.register_hook(    # type: ignore[union-attr, operator]
        lambda grad: held.append(middle().note is not None))  # type: ignore[union-attr]
    untold = frames._keeps_graph is None        # by torch 2.4: then for the safe side
    loss.backward(retain_graph=keep)
    assert held == [keep or untold]
    if keep:
        loss.backward()
        assert held == [True, untold] and framed.watcher.refills == 6


@pytest.mark.parametrize("install, installed", [
    (sys.settrace, sys.gettrace), (sys.setprofile, sys.getprofile)])
def test_a_recompute_is_not_traced(install: Any, installed: Any) -> None:
    net, seen = Net(), []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        seen.extend([event] * (frame.f_code is Layer.forward.__code__))
        return trace

    framed = Framed(net, DROP)
    before = installed()
    install(trace)
    try:
        out = net(data()[0])
        assert len(seen) > 3
        seen.clear()
        out.sum().backward()
        assert installed() is trace and seen == [] and framed.watcher.refills == 3
    finally:
        install(before)


def test_a_profiler_of_python_goes_on_through_a_recompute() -> None:
    net, profiler = Net(), cProfile.Profile()
    Framed(net, DROP)
    out = net(data()[0])
    profiler.enable()
    out.sum().backward()
    assert sys.getprofile() is profiler
    profiler.disable()


def test_a_proof_agrees_and_is_reported() -> None:
    _, framed = outcome(backward, PROVE, steps=1)
    assert framed is not None
    assert framed.watcher.proofs == [None] * 3, framed.watcher.details


class Scaled(Smooth):
    scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(x) * Scaled.scale))


def scaled_forward(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    Scaled.scale = 0.5
    out = net(x)
    Scaled.scale = 1.0
    F.mse_loss(out, y).backward()


def test_a_failed_proof_gives_backward_the_originals() -> None:
    plain, _ = outcome(scaled_forward, None, block=Scaled)
    framed, kept = outcome(scaled_forward, PROVE, block=Scaled)
    assert equal(plain, framed)
    assert kept is not None and kept.watcher.proofs == ["recompute_differs"] * 6


def test_a_recompute_that_raises_gives_backward_the_originals() -> None:
    class Once(Smooth):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch._C._current_graph_task_id() != -1:
                raise KeyError("never again")
            return super().forward(x)

    plain, _ = outcome(backward, None, block=Once)
    framed, kept = outcome(backward, PROVE, block=Once)
    assert equal(plain, framed)
    assert kept is not None and kept.watcher.proofs == ["recompute_raises"] * 6


def test_a_trusted_block_that_changes_its_nature_raises_before_its_gradient() -> None:
    with pytest.raises(MismatchError, match="has other bits"):
        outcome(scaled_forward, DROP, block=Scaled)


def test_without_digests_a_parameter_written_to_is_still_noticed() -> None:
    net = Net(Smooth)
    framed = Framed(net, DROP)
    framed.watcher.digest = None
    x, y = data()
    loss = F.mse_loss(net(x), y)
    with torch.no_grad():
        net.blocks[1].up.bias.add_(1)  # type: ignore[union-attr]
    with pytest.raises(MismatchError, match="written to"):
        loss.backward()


@pytest.mark.parametrize("mode", [KEEP, DROP, PROVE])
def test_a_weight_written_to_raises_as_autograd_does(mode: str) -> None:
    net = Net(Smooth)
    Framed(net, mode)
    x, y = data()
    loss = F.mse_loss(net(x), y)
    with torch.no_grad():
        net.blocks[1].down.weight.mul_(2)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("mode", [KEEP, DROP, PROVE])
def test_an_edited_output_that_was_saved_raises_as_autograd_does(mode: str) -> None:
    class Last(Smooth):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.up(x))[..., :16].exp()

    net = Net(Last)
    Framed(net, mode)
    x, y = data()
    out = net(x)
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        F.mse_loss(out, y).backward()


def test_an_exception_in_a_forward_leaves_no_hooks_behind() -> None:
    class Broken(Smooth):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise ValueError("no")

    net = Net(Broken)
    Framed(net, DROP)
    with pytest.raises(ValueError, match="no"):
        net(data()[0])
    assert not plain.hooks_in_force()


@pytest.mark.parametrize("mode", [KEEP, DROP, PROVE])
def test_a_graph_is_freed_without_the_collector(mode: str) -> None:
    net = Net()
    framed = Framed(net, mode)
    x, y = data()
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    framed.watcher.frame_decided = alive.add  # type: ignore[method-assign]
    gc.collect()
    gc.disable()
    try:
        loss = F.mse_loss(net(x), y)
        assert len(alive) == 3
        if mode != KEEP:        # without a backward as well as after one
            del loss
            assert not alive
            loss = F.mse_loss(net(x), y)
        loss.backward()
        assert not alive
    finally:
        gc.enable()


def test_a_dropped_frame_can_be_given_its_tensors_back_before_a_step() -> None:
    def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(net(x), y)
        rematerialise()
        with torch.no_grad():
            for block in net.blocks:  # type: ignore[union-attr]
                block.up.bias.add_(1)
        loss.backward()

    def rematerialise() -> None:
        if framed is not None:
            framed.frames.rematerialise()

    framed: Optional[Framed] = None
    plain, _ = outcome(train, None, block=Smooth)
    net = Net(Smooth)
    framed = Framed(net, DROP)
    x, y = data()
    torch.manual_seed(7)
    for _ in range(2):
        train(net, x, y)
    assert equal(plain[2:8], [p.grad for p in net.parameters()][:6])


class Swallowing(Smooth):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return super().forward(x)
        except Exception:
            return x


def test_a_stop_is_not_swallowed_by_the_job() -> None:
    plain, _ = outcome(backward, None, block=Swallowing)
    framed, kept = outcome(backward, DROP, block=Swallowing)
    assert equal(plain, framed)
    assert kept is not None and kept.watcher.refills == 6


def test_a_scripted_child_may_wrap_the_stop_in_an_exception_of_its_own() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(Smooth())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    # TorchScript specialises in its first runs, with other roundings.
    net, (x, y) = Net(Outer), data()
    for _ in range(4):
        backward(net, x, y)
    grads = []
    for mode in (None, PROVE, DROP):
        kept = Framed(net, mode) if mode else None
        net.zero_grad()
        backward(net, x, y)
        grads.append([p.grad for p in net.parameters()])
        assert kept is None or kept.watcher.refills == 3
    assert equal(grads[0], grads[1]) and equal(grads[0], grads[2])


def test_spilled_originals_still_prove_a_block(tmp_path: Any) -> None:
    spill = Spill(str(tmp_path), 1 << 30, pytest.fail)
    net = Net()
    framed = Framed(net, PROVE, spill)
    plain, _ = outcome(backward, None, steps=1)
    moved = _spilling(framed)
    x, y = data()
    torch.manual_seed(7)
    backward(net, x, y)
    if spill.written:
        assert moved and framed.watcher.proofs == [None] * 3
    assert equal(plain[1:10], [p.grad for p in net.parameters()][:9])
    assert list(tmp_path.iterdir()) == []


def test_spilled_originals_come_back_when_the_proof_fails(tmp_path: Any) -> None:
    plain, _ = outcome(scaled_forward, None, steps=1, block=Scaled)
    net = Net(Scaled)
    framed = Framed(net, PROVE, Spill(str(tmp_path), 1 << 30, pytest.fail))
    moved = _spilling(framed)
    x, y = data()
    scaled_forward(net, x, y)
    assert moved and framed.watcher.proofs == ["recompute_differs"] * 3
    assert equal(plain[1:5], [p.grad for p in net.parameters()][:4])


def _spilling(framed: Framed) -> list[int]:
    """Spill each frame as soon as it is held."""
    moved: list[int] = []

    def decided(frame: Any) -> None:
        moved.append(framed.frames.proofs.spill(frame))

    framed.watcher.frame_decided = decided  # type: ignore[method-assign]
    return moved


@pytest.mark.parametrize("folder", ["/dev/shm", "/no/such/folder", "/proc"])
def test_a_folder_that_cannot_hold_a_spill_means_keep(folder: str) -> None:
    said: list[str] = []
    spill = Spill(folder, 1 << 30, said.append)
    assert spill.write([torch.ones(4)]) is None
    assert spill.write([torch.ones(4)]) is None
    assert len(said) == 1 and folder in said[0]


def test_a_full_spill_keeps_what_does_not_fit(tmp_path: Any) -> None:
    spill = Spill(str(tmp_path), 100, pytest.fail)
    assert spill.write([torch.ones(1000)]) is None
    assert spill.write([torch.ones(4)]) is not None


def test_a_spilled_storage_gives_its_room_back(tmp_path: Any) -> None:
    spill = Spill(str(tmp_path), 5000, pytest.fail)
    for _ in range(10):
        moved = spill.write([torch.ones(1000)])
        assert moved is not None and torch.equal(moved[0].look({}), torch.ones(1000))
        del moved


def test_lazy_conjugates_survive_the_spill(tmp_path: Any) -> None:
    spill = Spill(str(tmp_path), 1 << 20, pytest.fail)
    original = torch.randn(5, dtype=torch.complex64).conj()
    moved = spill.write([original])
    assert moved is not None
    assert torch.equal(moved[0].look({}), original)
    assert torch.equal(moved[0].restore({}), original)
    assert frames.tensors.same_form(moved[0].restore({}), original)


class Reads(nn.Module):
    """Its result depends on what stands in a list, or on how often it ran."""

    state: list[float] = []
    stable = True

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.stable:
            self.state[0] += 1.0
        return torch.tanh(self.up(x) * self.state[0]).square() + x


class Slices(Reads):
    """What it saves has as many columns as a list says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.up(x))[..., :int(self.state[0])]
        return y.exp().square().sum(-1, keepdim=True) + x


@pytest.mark.parametrize("mode", [DROP, PROVE])
@pytest.mark.parametrize("stable", [True, False])
def test_a_difference_names_operation_form_and_whether_it_repeats(
        stable: bool, mode: str) -> None:
    Reads.state[:], Reads.stable = [1.0], stable
    net, (x, y) = Net(Reads), data()
    framed = Framed(net, mode)
    loss = F.mse_loss(net(x), y)
    Reads.state[0] += 7.0
    said = ""
    if mode == DROP:
        with pytest.raises(MismatchError) as raised:
            loss.backward()
        said = str(raised.value)
    else:
        loss.backward()
        assert set(framed.watcher.proofs) == {"recompute_differs"}
        said = framed.watcher.details[0]
    assert "float32[4, 8, 16]" in said and "TanhBackward" in said
    assert ("not repeatable" in said) is not stable
    assert ("has changed since" in said) is stable


def test_another_form_is_told_with_both() -> None:
    Slices.state[:] = [4.0]
    net, (x, y) = Net(Slices), data()
    Framed(net, DROP)
    loss = F.mse_loss(net(x), y)
    Slices.state[:] = [5.0]
    with pytest.raises(MismatchError, match=r"tensor \d has another form, float32"
                       r"\[4, 8, 5\], it was float32\[4, 8, 4\]"):
        loss.backward()


class Recurrent(nn.Module):
    """Keeps oneDNN's workspaces for the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.lstm(x)[0]


class Graph(nn.Module):
    """Sparse tensors are saved, and held; all else is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(16, 16)
        self.register_buffer("adjacency", torch.eye(4).to_sparse_coo())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (self.adjacency @ torch.tanh(self.line(x)).flatten(1)).view_as(x)
        weights = y[:, 0, 0].square()
        edges = torch.sparse_coo_tensor(torch.arange(4).expand(2, 4), weights, (4, 4))
        return x + torch.sparse.mm(edges, y.flatten(1)).view_as(x)


class Packed(torch.autograd.Function):
    """Keeps bytes of its own, and not the same ones each time."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(torch.randint(9, (64,), dtype=torch.uint8))
        return x * 2

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * context.saved_tensors[0].float().mean()


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.seed()
            return Packed.apply(self.lstm(x)[0])


@pytest.mark.parametrize("mode", [PROVE, DROP])
@pytest.mark.parametrize("block", [Recurrent, Graph])
def test_workspaces_with_bytes_never_written_and_sparse_tensors(
        block: Callable[[], nn.Module], mode: str) -> None:
    grads = []
    for framed in (False, True):
        net = Net(block)
        watcher = Framed(net, mode).watcher if framed else None
        for _ in range(3):
            backward(net, *data())
        grads.append([p.grad for p in net.parameters()])
    assert watcher is not None and watcher.refills
    assert all(reason is None for reason in watcher.proofs), watcher.details
    assert all(torch.equal(a, b) for a, b in zip(*grads))


def test_other_bytes_that_differ_are_no_workspace() -> None:
    net = Net(Packs)
    watcher = Framed(net, PROVE).watcher
    backward(net, *data())
    assert watcher.proofs == 3 * ["recompute_differs"]
    Framed(net, DROP)
    with pytest.raises(MismatchError, match="uint8"):
        backward(net, *data())
