"""Inputs, random streams, torch's modes and context variables of then."""

import collections
import contextlib
import contextvars
import dataclasses
import random
import types
import typing

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ckptshim import modes
from ckptshim.note import Note, Scope
from ckptshim.structures import Copier
from past import forward, recompute, settings, streams

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)
OTHER = contextvars.ContextVar("OTHER")


class Draws(nn.Module):
    """Draws from every global stream."""

    def forward(self, x):
        return (nn.functional.dropout(x, 0.5) * random.random() + random.gauss(0, 1)
                + float(np.random.randn()) + np.random.rand())


def test_every_stream_is_put_back_and_left_alone():
    block, x = Draws(), torch.randn(50)
    np.random.seed(1)
    random.seed(1)
    for _ in range(3):                  # gauss() and randn() keep a second value
        note, result = forward(Scope(block), block, x)
        random.gauss(0, 1)
        np.random.randn(7)
        torch.rand(3)
        assert torch.equal(result, recompute(note, block))


def test_a_note_draws_nothing():
    before = streams()
    note = Note.take(Scope(nn.ReLU()), nn.ReLU(), (), {})
    assert streams() == before and note.changed_versions() == []


def test_equal_states_are_shared_and_outside_of_tensor_memory():
    relu = nn.ReLU()
    notes = [Note.take(Scope(relu), relu, (), {}) for _ in range(2)]
    states = [note._streams for note in notes]
    assert all(a is b for a, b in zip(states[0][0], states[1][0]))
    assert isinstance(states[0][0][0], bytes) and states[0][1] is states[1][1]


class Scaled(TorchFunctionMode):
    """Doubles what torch.tanh gives."""

    calls = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        Scaled.calls += 1
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.tanh else result


class Sensitive(nn.Module):
    """What it gives tells under which modes it ran."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x):
        return (torch.tanh(self.line(x)), torch.zeros(2), torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(), torch.get_float32_matmul_precision(),
                torch.are_deterministic_algorithms_enabled(),
                torch.backends.cuda.flash_sdp_enabled(), torch.is_anomaly_enabled(),
                torch.get_default_device(), VARIABLE.get(), OTHER.get(None))


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def precision():
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def variables():
    token, other = VARIABLE.set(1), OTHER.set(2)
    yield
    VARIABLE.reset(token)
    OTHER.reset(other)


@contextlib.contextmanager
def anomaly():
    torch.set_anomaly_enabled(True)
    yield
    torch.set_anomaly_enabled(False)


MODES = {
    "none": contextlib.nullcontext,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "half": lambda: torch.autocast("cpu", dtype=torch.float16),
    "no autocast inside": lambda: torch.autocast("cpu", enabled=False),
    "default dtype": default_dtype,
    "default device": lambda: torch.device("meta"),
    "a function mode": Scaled,
    "precision": precision,
    "deterministic": deterministic,
    "attention": lambda: torch.nn.attention.sdpa_kernel(
        torch.nn.attention.SDPBackend.MATH),
    "context variables": variables,
    "anomaly": anomaly,
}
PRESENT = dict(MODES, no_grad=torch.no_grad, inference=torch.inference_mode)


def facts(results):
    return [(r.dtype, r.device, r.is_meta or r.tolist()) if isinstance(r, torch.Tensor)
            else r for r in results]


@pytest.mark.parametrize("now", PRESENT.values(), ids=PRESENT)
@pytest.mark.parametrize("then", MODES.values(), ids=MODES)
def test_a_recompute_runs_under_the_modes_of_the_forward(then, now):
    block, x = Sensitive(), torch.randn(3, 4)
    with then():
        note, result = forward(Scope(block), block, x)
    with now():
        calls, before = Scaled.calls, settings()
        note.leave(note.enter())
        assert Scaled.calls == calls    # a job's mode sees nothing of us
        assert settings() == before
        assert facts(recompute(note, block)) == facts(result)
    if not result[0].is_meta:
        assert result[0].requires_grad


class Casts(TorchDispatchMode):
    """Counts the casts that run."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._to_copy.default
        return function(*args, **(kwargs or {}))


def casts(block, x):
    with Casts() as mode:
        block(x)
    return mode.count


def test_inside_an_autocast_region_its_cache_is_left_alone():
    block, x = Sensitive(), torch.randn(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = casts(block, x)
        note, _ = forward(Scope(block), block, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recompute(note, block)
        assert casts(block, x) == expected
    assert torch.autocast_increment_nesting() == 1
    torch.autocast_decrement_nesting()


def test_inside_its_own_autocast_region_a_recompute_finds_the_cast_weights():
    block, x = Sensitive(), torch.randn(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        block(x)
        with torch.no_grad():
            block.line.weight += 1.0        # what was cast is used on
        note, result = forward(Scope(block), block, x)
        expected = casts(block, x)
        assert facts(recompute(note, block)) == facts(result)
        assert casts(block, x) == expected
    with torch.autocast("cpu", dtype=torch.bfloat16):   # of another region: as before
        expected = casts(block, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        other = recompute(note, block)
        assert casts(block, x) == expected
    assert facts(other) != facts(result)


@pytest.mark.parametrize("still_on", [False, True])
def test_autocast_that_was_switched_on_by_hand_keeps_its_cache(monkeypatch, still_on):
    monkeypatch.setattr(modes, "_by_hand", False)
    block, plain, x = Sensitive(), Sensitive(), torch.randn(3, 4)
    other = Note.take(Scope(plain), plain, (x,), {})    # without autocast
    try:
        torch.set_autocast_enabled("cpu", True)
        block(x)
        with torch.no_grad():
            block.line.weight += 1.0
        note, result = forward(Scope(block), block, x)
        expected = casts(block, x)
        torch.set_autocast_enabled("cpu", still_on)
        assert facts(recompute(note, block)) == facts(result)
        recompute(other, plain)
        torch.set_autocast_enabled("cpu", True)
        assert casts(block, x) == expected
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: list


@dataclasses.dataclass(frozen=True)
class Record:
    x: torch.Tensor
    items: list


class Batch:
    def __init__(self, x):
        self.x = x
        self.more = {"y": [x]}
        self.itself = self


class Mapping(dict):
    pass


def structures(x):
    return {
        "list": [x, 1], "tuple": (x, [x]), "named tuple": Pair(x, [x]),
        "dict": {"x": x}, "ordered": collections.OrderedDict(x=x, y=[1]),
        "subclass": Mapping(x=x), "default": collections.defaultdict(list, x=[x]),
        "record": Record(x, [x]), "slice": slice(0, 3), "set": {1, 2},
        "deque": collections.deque([x], maxlen=2), "object": Batch(x),
        "namespace": types.SimpleNamespace(x=x), "nested": [{"a": (x, [x])}],
    }


NAMES = list(structures(None))


@pytest.mark.parametrize("name", NAMES)
def test_structures_are_copied_with_their_type_and_without_history(name):
    x = torch.randn(3, requires_grad=True) * 2
    value = structures(x)[name]
    copier = Copier()
    twin = copier.copy(value)
    assert type(twin) is type(value)
    if copier.tensors:
        assert twin is not value
    for tensor in copier.tensors:
        assert tensor.is_leaf and tensor.requires_grad
        assert tensor.data_ptr() == x.data_ptr()
    if name == "default":
        assert twin.default_factory is list
    if name == "object":
        assert twin.itself is twin and twin.more["y"][0] is twin.x
    if name == "deque":
        assert twin.maxlen == 2


def test_model_outputs_of_transformers_are_copied():
    outputs = pytest.importorskip("transformers.modeling_outputs")
    x = torch.randn(3, requires_grad=True) * 2
    value = outputs.BaseModelOutput(last_hidden_state=x, hidden_states=(x, x))
    twin = Copier().copy(value)
    assert type(twin) is type(value) and list(twin.keys()) == list(value.keys())
    assert twin.last_hidden_state is twin["last_hidden_state"]
    assert twin.last_hidden_state is not x and twin.hidden_states[0].is_leaf


def test_leaves_and_parameters_are_passed_themselves():
    leaf, parameter = torch.randn(3), nn.Parameter(torch.randn(3))
    assert Copier().copy([leaf, parameter])[0] is leaf
    assert Copier().copy([leaf, parameter])[1] is parameter


def test_attributes_on_tensors_and_subclasses_survive():
    class Tagged(torch.Tensor):
        pass

    x = (torch.randn(3, requires_grad=True) * 2).as_subclass(Tagged)
    x.tag = "q"
    twin = Copier().copy(x)
    assert type(twin) is Tagged and twin.tag == "q" and twin.is_leaf


class Eats(nn.Module):
    """Empties what it is given."""

    def forward(self, parts, *, named):
        total = sum(parts) + named["x"][0]
        parts.clear()
        named["x"].pop()
        return total


def test_containers_are_as_they_were_for_every_recompute():
    block, x = Eats(), torch.randn(3, requires_grad=True) * 2
    note, result = forward(Scope(block), block, [x, x], named={"x": [x]})
    for _ in range(2):
        assert torch.equal(result, recompute(note, block))
        assert len(note.args[0]) == 2 and len(note.kwargs["named"]["x"]) == 1


def test_a_recompute_does_not_touch_the_graph_or_its_hooks():
    class Hooked(nn.Module):
        def forward(self, x):
            x.register_hook(lambda gradient: calls.append(1))
            return x * 2

    block, calls = Hooked(), []
    x = torch.randn(3, requires_grad=True) * 2
    note, result = forward(Scope(block), block, x)
    again = recompute(note, block)
    torch.autograd.grad(again.sum(), note.args)
    calls.clear()
    result.sum().backward()
    assert calls == [1]


def test_a_version_that_moved_is_seen_through_the_alias():
    block, x = nn.ReLU(), torch.randn(3, requires_grad=True) * 2
    note = Note.take(Scope(block), block, (x,), {})
    x.mul_(2)
    assert note.changed_versions() == ["input 0"]
