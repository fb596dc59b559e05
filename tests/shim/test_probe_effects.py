"""Effects of a forward that a recompute would repeat: each kind is seen."""

import collections
import contextvars
import csv
import ctypes
import functools
import io
import itertools
import logging
import mmap
import multiprocessing
import os
import pickle
import queue
import random
import sys
import tempfile
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from ckptshim.probe import Look

SEEN = []
TABLE = {"calls": 0}
STEP = 0
NESTED = {"a": [1, 2]}
DRAWS = np.random.default_rng(0)
PYTHON_DRAWS = random.Random(3)
TORCH_DRAWS = torch.Generator()
COUNTER = itertools.count()
NUMBERS = (ctypes.c_int * 3)()
SHARED = multiprocessing.Value("i", 0, lock=False)
MAPPED = mmap.mmap(-1, 64)
SPARSE = mmap.mmap(-1, 16 << 20)
VIEW = memoryview(bytearray(8))
TABLE_FILE = np.memmap(tempfile.TemporaryFile(), dtype=np.float32, shape=(4,))
BANK = torch.zeros(1 << 17)
LARGE_ARRAY = np.zeros(2 << 20)
TOTAL = torch.zeros(3)
ARRAY = np.zeros(3)
QUEUE = queue.Queue()
RECENT = collections.deque(maxlen=2)
LOCAL = threading.local()
VARIABLE = contextvars.ContextVar("VARIABLE")
CONFIG = types.SimpleNamespace(calls=0)
BUFFER = io.StringIO()
OTHER = types.ModuleType("other")
OTHER.log = []
LAZY = None
KNOWN_OF = weakref.WeakKeyDictionary()


class Registry:
    entries = []
    count = 0

    def __init__(self):
        self.items = []

    def add(self, value):
        self.items.append(value)


REGISTRY = Registry()


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 0


SLOTTED = Slotted()


def add_one():
    SEEN.append(1)


def counted(function):
    calls = []

    @functools.wraps(function)
    def inner(*args):
        calls.append(1)
        return function(*args)
    return inner


@counted
def decorated(x):
    return x * 2


def with_default(x, cache=[]):  # noqa: B006
    cache.append(1)
    return x


class Doubling(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Doubling.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def global_counter(self, x):
    global STEP
    STEP += 1


def global_lazy(self, x):
    global LAZY
    LAZY = torch.arange(3)


def set_local(self, x):
    LOCAL.calls = getattr(LOCAL, "calls", 0) + 1


def put_in_variable(self, x):
    VARIABLE.get().append(1)


def write_to_output(self, x):
    sys.stdout.write("")


def write_to_descriptor(self, x):
    reader, writer = os.pipe()
    os.write(writer, b"x")
    os.close(reader)
    os.close(writer)


def start_a_thread(self, x):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


GLOBAL_EFFECTS = {
    "a list grows": lambda self, x: SEEN.append(x),
    "a dict entry changes": lambda self, x: TABLE.update(calls=TABLE["calls"] + 1),
    "a nested list grows": lambda self, x: NESTED["a"].append(1),
    "a number is bound anew": global_counter,
    "a table is built on first use": global_lazy,
    "a function called does it": lambda self, x: add_one(),
    "a decorator counts in a closure": lambda self, x: decorated(x),
    "a default argument grows": lambda self, x: with_default(x),
    "a class attribute counts": lambda self, x: setattr(
        Registry, "count", Registry.count + 1),
    "a list in a class grows": lambda self, x: Registry.entries.append(1),
    "the block's class counts": lambda self, x: setattr(
        type(self), "calls", getattr(type(self), "calls", 0) + 1),
    "an object's method stores": lambda self, x: REGISTRY.add(1),
    "a slot changes": lambda self, x: setattr(SLOTTED, "value", SLOTTED.value + 1),
    "a namespace counts": lambda self, x: setattr(CONFIG, "calls", CONFIG.calls + 1),
    "a module's attribute grows": lambda self, x: OTHER.log.append(1),
    "an autograd function counts": lambda self, x: Doubling.apply(x),
    "a generator of NumPy draws": lambda self, x: DRAWS.random(),
    "a generator of Python draws": lambda self, x: PYTHON_DRAWS.random(),
    "a generator of torch draws": lambda self, x: torch.rand(1, generator=TORCH_DRAWS),
    "an iterator moves": lambda self, x: next(COUNTER),
    "a tensor is written to": lambda self, x: TOTAL.add_(1),
    "a tensor is written to unseen": lambda self, x: TOTAL.data.add_(1),
    "an array is written to": lambda self, x: ARRAY.__iadd__(1),
    "a large tensor is written to unseen": lambda self, x: BANK.data.add_(1),
    "a large array is written to": lambda self, x: LARGE_ARRAY.__iadd__(1),
    "a mapped array is written to": lambda self, x: TABLE_FILE.__iadd__(1),
    "an array of C's is written to": lambda self, x: NUMBERS.__setitem__(
        0, NUMBERS[0] + 1),
    "a shared number counts": lambda self, x: setattr(
        SHARED, "value", SHARED.value + 1),
    "mapped memory is written to": lambda self, x: MAPPED.__setitem__(
        0, MAPPED[0] ^ 1),
    "much mapped memory is written to": lambda self, x: SPARSE.__setitem__(
        slice(0, len(SPARSE)), bytes([SPARSE[0] ^ 1]) * len(SPARSE)),
    "a view of memory is written to": lambda self, x: VIEW.__setitem__(
        0, VIEW[0] ^ 1),
    "a table's row is written": lambda self, x: csv.writer(
        io.StringIO()).writerow([1]),
    "an object is pickled to a file": lambda self, x: pickle.dump(1, io.BytesIO()),
    "an item is queued": lambda self, x: QUEUE.put(1),
    "a deque moves on": lambda self, x: RECENT.append(x),
    "a thread's own attribute counts": set_local,
    "a list in a context variable grows": put_in_variable,
    "a buffer is written to": lambda self, x: BUFFER.write("x"),
    "a line is printed": lambda self, x: print(end=""),
    "standard output is written to": write_to_output,
    "a descriptor is written to": write_to_descriptor,
    "the environment changes": lambda self, x: os.environ.update(PROBE_TEST="1"),
    "a record is logged": lambda self, x: logging.getLogger("probe").error("x"),
    "a warning is issued": lambda self, x: warnings.warn("x", stacklevel=1),
    "a thread is started": start_a_thread,
    "a weak dictionary counts": lambda self, x: KNOWN_OF.update(
        {self: KNOWN_OF.get(self, 0) + 1}),
    "a list in a weak dictionary grows": lambda self, x: KNOWN_OF.setdefault(
        Registry, []).append(1),
    "a flag of torch changes": lambda self, x: torch.set_default_dtype(torch.float64),
}


class Block(nn.Module):
    """Runs an effect, then a layer."""

    def __init__(self, effect=None):
        super().__init__()
        self.line = nn.Linear(3, 3)
        self.__dict__["effect"] = effect

    def forward(self, x, *rest, **named):
        if self.effect is not None:
            self.effect(self, x, *rest, **named)
        return self.line(x)


def look(module, *args, **kwargs):
    """The look at one forward."""
    found = Look(module, type(module).forward, args, kwargs)
    with found:
        module(*args, **kwargs)
    return found


@pytest.fixture(autouse=True)
def _clean():
    VARIABLE.set([])
    REGISTRY.items.clear()
    yield
    torch.set_default_dtype(torch.float32)
    os.environ.pop("PROBE_TEST", None)


@pytest.mark.parametrize("effect", GLOBAL_EFFECTS.values(), ids=GLOBAL_EFFECTS)
@pytest.mark.filterwarnings("ignore")
def test_an_effect_outside_of_the_block_is_seen(effect):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        found = look(Block(effect), torch.randn(2, 3))
    assert found.verdict() == "global_effect", found.detail
    assert found.detail


def write_to_a_file(self, x):
    with open(os.devnull, "w") as file:
        file.write("x")


def print_and_write(self, x):
    print(end="")
    write_to_a_file(self, x)


@pytest.mark.parametrize("effect, lasting", [
    (GLOBAL_EFFECTS["a tensor is written to"], True),
    (GLOBAL_EFFECTS["a tensor is written to unseen"], True),
    (GLOBAL_EFFECTS["an item is queued"], True),
    (GLOBAL_EFFECTS["a shared number counts"], True),
    (GLOBAL_EFFECTS["an array is written to"], True),
    (GLOBAL_EFFECTS["an iterator moves"], True),
    (GLOBAL_EFFECTS["a buffer is written to"], True),
    (GLOBAL_EFFECTS["a table's row is written"], True),
    (GLOBAL_EFFECTS["a descriptor is written to"], True),
    (write_to_a_file, True),
    (print_and_write, True),
    (GLOBAL_EFFECTS["a line is printed"], False),
    (write_to_output, False),
    (GLOBAL_EFFECTS["a number is bound anew"], False),
    (GLOBAL_EFFECTS["a dict entry changes"], False)])
def test_whether_it_may_come_again_unseen_is_told(effect, lasting):
    found = look(Block(effect), torch.randn(2, 3))
    assert found.verdict() == "global_effect" and found.lasting is lasting


def test_what_changed_is_named():
    found = look(Block(lambda self, x: SEEN.append(1)), torch.randn(2, 3))
    assert found.verdict() == "global_effect"
    assert found.detail == "global list test_probe_effects.SEEN"


UNTRACED = ["a list grows", "a number is bound anew", "a function called does it",
            "a decorator counts in a closure", "a class attribute counts",
            "an object's method stores"]


@pytest.mark.parametrize("name", UNTRACED)
def test_under_a_profiler_of_the_job_names_are_followed_in_the_code(name):
    block, calls = Block(GLOBAL_EFFECTS[name]), []
    sys.setprofile(lambda *event: calls.append(event[1]))
    try:
        mine = sys.getprofile()
        found = look(block, torch.randn(2, 3))
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert found.verdict() == "global_effect" and calls


def grow_list(self, x, items):
    items.append(1)


def grow_inner(self, x, items):
    items["a"].append(1)


def set_attribute(self, x, record):
    record.calls = 1


ARGUMENT_EFFECTS = {
    "the input is written to": (lambda self, x: x.add_(1), ()),
    "the input is written to unseen": (lambda self, x: x.data.add_(1), ()),
    "the input changes its shape": (lambda self, x: x.unsqueeze_(0).squeeze_(0), ()),
    "the input asks for a gradient": (lambda self, x: x.requires_grad_(), ()),
    "the input gets an attribute": (lambda self, x: setattr(x, "mark", 1), ()),
    "a list grows": (grow_list, ([],)),
    "a list in a dict grows": (grow_inner, ({"a": []},)),
    "a record changes": (set_attribute, (types.SimpleNamespace(calls=0),)),
    "an object stores": (lambda self, x, r: r.add(x), (Registry(),)),
    "a tensor in an object": (lambda self, x, r: r.items[0].add_(1),
                              (types.SimpleNamespace(items=[torch.zeros(2)]),)),
    "an array is written to": (lambda self, x, a: a.fill(3), (np.zeros(2),)),
    "an iterator": (lambda self, x, it: None, (iter([1, 2]),)),
    "an iterator in a list": (lambda self, x, it: None, ([iter([1, 2])],)),
    "a generator": (lambda self, x, it: next(it), ((i for i in range(3)),)),
    "a random generator": (lambda self, x, g: g.random(), (np.random.default_rng(0),)),
    "a file": (lambda self, x, f: None, (io.StringIO("x"),)),
}


@pytest.mark.parametrize("effect, rest", ARGUMENT_EFFECTS.values(),
                         ids=ARGUMENT_EFFECTS)
def test_an_effect_on_an_argument_is_seen(effect, rest):
    found = look(Block(effect), torch.randn(2, 3), *rest)
    assert found.verdict() == "mutates_arguments", found.detail


def test_an_effect_on_a_named_argument_is_seen():
    block = Block(lambda self, x, seen: seen.append(1))
    found = look(block, torch.randn(2, 3), seen=[])
    assert found.verdict() == "mutates_arguments"


PARAMETER_EFFECTS = {
    "is clamped": lambda self, x: self.line.weight.data.clamp_(-0.01, 0.01),
    "is written to": lambda self, x: self.line.bias.detach().add_(1),
    "gets a gradient": lambda self, x: self.line(x).sum().backward(),
}


@pytest.mark.parametrize("effect", PARAMETER_EFFECTS.values(), ids=PARAMETER_EFFECTS)
def test_an_effect_on_a_parameter_is_seen(effect):
    assert look(Block(effect), torch.randn(2, 3)).verdict() == "mutates_parameters"


def nothing(*_):
    return None


def say(*_):
    print(end="")


def build_mask(self, x):
    if getattr(self, "mask", None) is None:
        self.mask = torch.ones(3, 3).tril()


def build_in_dict(self, x):
    self.tables.setdefault(len(x), self.line.weight * 2)


STATE_EFFECTS = {
    "a mask is built": (build_mask, {}),
    "a table is built": (build_in_dict, {"tables": {}}),
    "an object inside counts": (lambda self, x: self.record.items.append(1),
                                {"record": Registry()}),
    "a list in a list grows": (lambda self, x: self.parts[0].append(1),
                               {"parts": [[]]}),
    "a tensor is written to": (lambda self, x: self.total.add_(1),
                               {"total": torch.zeros(3)}),
    "an array is written to": (lambda self, x: self.array.fill(2),
                               {"array": np.zeros(3)}),
    "a parameter is added": (lambda self, x: self.register_parameter(
        "extra", nn.Parameter(torch.ones(1))), {}),
    "a module is added": (lambda self, x: self.add_module("extra", nn.ReLU()), {}),
    "a hook is added": (lambda self, x: self.line.register_forward_hook(nothing), {}),
}


@pytest.mark.parametrize("effect, state", STATE_EFFECTS.values(), ids=STATE_EFFECTS)
def test_state_that_a_note_does_not_put_back_is_seen(effect, state):
    block = Block(effect)
    for name, value in state.items():
        block.__dict__[name] = value
    found = look(block, torch.randn(2, 3))
    assert found.verdict() == "mutates_python_state", found.detail


def test_a_hook_on_an_inner_layer_that_collects_is_seen():
    block, seen = Block(), []
    block.line.register_forward_hook(lambda module, args, out: seen.append(1))
    found = look(block, torch.randn(2, 3))
    assert found.verdict() == "global_effect" and "seen" in found.detail


def test_a_hook_object_that_collects_is_seen():
    class Collect:
        def __init__(self):
            self.seen = []

        def __call__(self, module, args, out):
            self.seen.append(1)

    block = Block()
    block.line.register_forward_hook(Collect())
    assert look(block, torch.randn(2, 3)).verdict() == "global_effect"


def test_a_hook_on_every_module_that_collects_is_seen():
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, out: seen.append(1))
    try:
        assert look(Block(), torch.randn(2, 3)).verdict() == "global_effect"
    finally:
        handle.remove()


class Outer(nn.Module):
    """Runs a block under a look of its own, an effect before and one after."""

    def __init__(self, before, inside, after):
        super().__init__()
        self.inner = Block(inside)
        self.__dict__.update(before=before, after=after)

    def forward(self, x):
        self.before(self, x)
        self.verdict = look(self.inner, x).verdict()
        self.after(self, x)
        return x


@pytest.mark.parametrize("place", range(3))
def test_a_nested_look_does_not_blind_the_outer_one(place):
    outer = Outer(*[say if i == place else nothing for i in range(3)])
    assert look(outer, torch.randn(2, 3)).verdict() == "global_effect"
    assert outer.verdict == ("global_effect" if place == 1 else None)
    assert sys.getprofile() is None


def test_an_exception_passes_through_and_leaves_no_tracer():
    def fail(self, x):
        raise ValueError("the batch is bad")

    with pytest.raises(ValueError, match="the batch is bad"):
        look(Block(fail), torch.randn(2, 3))
    assert sys.getprofile() is None
