"""Forwards that may be recomputed: nothing speaks against them."""

import functools
import time
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from ckptshim import digest
from ckptshim.probe import Look
from ckptshim.tracer import unwatched
from test_probe_effects import Block, Registry, look

LIVING = weakref.WeakSet()
KNOWN_OF = weakref.WeakKeyDictionary()


class Probe:
    def __init__(self):
        LIVING.add(self)

    def __call__(self, gradient):
        return gradient


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2


def use_autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        self.line(x)


def use_many_things(self, x):
    time.time()
    torch.is_grad_enabled()
    outputs = [x, x]
    outputs.append(x)
    table = {}
    table["x"] = outputs
    made = Registry()
    made.add(x)
    with torch.autograd.profiler.record_function("block"):
        pass
    with torch.no_grad(), torch.random.fork_rng():
        torch.rand(1)


def local_closure(self, x):
    collected = []

    def collect(value):
        collected.append(value)
    collect(x)


CLEAN = {
    "nothing": None,
    "random numbers": lambda self, x: (torch.rand(1), np.random.rand()),
    "its own generator": lambda self, x: torch.rand(1, generator=self.generator),
    "a counter": lambda self, x: setattr(self, "calls", self.calls + 1),
    "a list of losses": lambda self, x: self.losses.append(x.sum()),
    "a table for each length": lambda self, x: self.tables.setdefault(
        len(x), torch.arange(len(x))),
    "its last output": lambda self, x: setattr(self, "last", x * 2),
    "a mode switched": lambda self, x: self.line.eval(),
    "a cached function": lambda self, x: cached(3),
    "autocast": use_autocast,
    "objects made here": use_many_things,
    "a closure made here": local_closure,
    "a hook on an activation": lambda self, x: self.line(x).register_hook(Probe()),
    "a hook on the input": lambda self, x: x.register_hook(Probe()),
    "a warning not shown": lambda self, x: warnings.warn("x", stacklevel=1),
    "an entry for a dead object": lambda self, x: KNOWN_OF.update({Registry(): 1}),
    "a method of the shim": lambda self, x: print_unwatched(),
}


def print_unwatched():
    with unwatched():
        print(end="")


@pytest.mark.parametrize("effect", CLEAN.values(), ids=CLEAN)
def test_a_harmless_forward_is_clean(effect):
    block = Block(effect)
    block.__dict__.update(generator=torch.Generator(), calls=0, losses=[],
                          tables={}, last=torch.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = look(block, torch.randn(2, 3, requires_grad=True) * 1)
    assert found.verdict() is None, found.detail
    assert found.changing == set() and found.detail == ""


def test_a_cache_that_was_built_is_clean_the_next_time():
    def build(self, x):
        if getattr(self, "mask", None) is None:
            self.mask = torch.ones(3)

    block = Block(build)
    assert look(block, torch.randn(2, 3)).verdict() == "mutates_python_state"
    assert look(block, torch.randn(2, 3)).verdict() is None


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x + F.relu(self.norm(self.conv(x)))


def test_the_buffers_that_a_forward_changes_are_named():
    found = look(Normed(), torch.randn(2, 4, 5, 5))
    assert found.verdict() is None
    assert found.changing == {"calls", "norm.running_mean", "norm.running_var",
                              "norm.num_batches_tracked"}


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_buffer_is_watched_like_any_other(layout):
    def mix(self, x):
        return self.adjacency @ x

    block = Block(mix)
    block.register_buffer("adjacency", torch.eye(2).to_sparse(layout=layout))
    assert look(block, torch.randn(2, 3)).verdict() is None

    def scale(self, x):
        self.adjacency.values().mul_(2)

    block = Block(scale)
    block.register_buffer("adjacency", torch.eye(2).to_sparse(layout=layout))
    if layout is torch.sparse_coo:
        block.adjacency = block.adjacency.coalesce()
    assert look(block, torch.randn(2, 3)).verdict() == "mutates_python_state"


def test_in_evaluation_batch_norm_changes_nothing():
    block = Normed()
    block.norm.eval()
    assert look(block, torch.randn(2, 4, 5, 5)).changing == {"calls"}


def test_a_buffer_that_moves_without_a_version_is_named():
    def roll(self, x):
        self.queue.data.copy_(self.queue.roll(1))

    block = Block(roll)
    block.register_buffer("queue", torch.arange(8))
    found = look(block, torch.randn(2, 3))
    assert found.verdict() is None and found.changing == {"queue"}


def test_spectral_norm_changes_its_vectors():
    layer = parametrizations.spectral_norm(nn.Linear(3, 3))
    found = look(nn.Sequential(layer, nn.ReLU()), torch.randn(2, 3))
    assert found.verdict() is None
    assert found.changing == {f"0.parametrizations.weight.0.{v}" for v in ("_u", "_v")}


@pytest.mark.parametrize("layer, shape", [
    (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8)),
    (nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (2, 3, 8)),
    (nn.LSTM(8, 8, 2, dropout=0.1), (3, 2, 8)),
    (nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.GELU()), (2, 8)),
    (parametrizations.weight_norm(nn.Linear(8, 8)), (2, 8)),
], ids=lambda value: type(value).__name__)
def test_layers_of_torch_are_clean(layer, shape):
    x = torch.randn(shape)
    args = (x, x) if isinstance(layer, nn.TransformerDecoderLayer) else (x,)
    found = look(layer, *args)
    assert found.verdict() is None, found.detail


def inspect_block(model, block, run):
    """The look at one block while its model runs."""
    found, original = [], type(block).forward

    def forward(self, *args, **kwargs):
        if self is not block:
            return original(self, *args, **kwargs)
        with Look(self, original, args, kwargs) as seen:
            result = original(self, *args, **kwargs)
        found.append(seen)
        return result

    type(block).forward = forward
    try:
        run(model)
    finally:
        type(block).forward = original
    return found[0]


def small_models():
    transformers = pytest.importorskip("transformers")
    ids = torch.randint(0, 16, (2, 5))
    common = {"vocab_size": 16, "bos_token_id": 0, "eos_token_id": 1}
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16,
             "num_hidden_layers": 2}
    gpt2 = transformers.GPT2Model(transformers.GPT2Config(
        n_layer=2, n_embd=8, n_head=2, **common))
    llama = transformers.LlamaModel(transformers.LlamaConfig(**sizes, **common))
    bert = transformers.BertModel(transformers.BertConfig(**sizes, **common))
    t5 = transformers.T5Model(transformers.T5Config(
        num_layers=2, d_model=8, d_ff=8, d_kv=4, num_heads=2, vocab_size=16))
    return {
        "gpt2": (gpt2.train(), gpt2.h[0], {"input_ids": ids}),
        "llama": (llama.train(), llama.layers[1], {"input_ids": ids}),
        "bert": (bert.train(), bert.encoder.layer[0], {"input_ids": ids}),
        "encoder": (t5.train(), t5.encoder.block[0],
                    {"input_ids": ids, "decoder_input_ids": ids}),
        "decoder": (t5.train(), t5.decoder.block[0],
                    {"input_ids": ids, "decoder_input_ids": ids}),
    }


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "encoder", "decoder"])
def test_blocks_of_transformers_are_clean(name):
    model, block, inputs = small_models()[name]
    found = inspect_block(model, block, lambda m: m(**inputs, use_cache=False))
    assert found.verdict() is None, found.detail


@pytest.mark.parametrize("name", ["gpt2", "llama", "decoder"])
def test_with_a_cache_the_blocks_of_transformers_change_their_arguments(name):
    model, block, inputs = small_models()[name]
    found = inspect_block(model, block, lambda m: m(**inputs, use_cache=True))
    assert found.verdict() == "mutates_arguments"


class Adapter(nn.Module):
    """As peft writes it: a frozen base and named low-rank pairs."""

    def __init__(self):
        super().__init__()
        self.base_layer = nn.Linear(8, 8).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(8, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 8, bias=False)})
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(0.1)})
        self.scaling = {"default": 2.0}
        self.active_adapters = ["default"]

    def forward(self, x, **kwargs):
        result = self.base_layer(x, **kwargs)
        for name in self.active_adapters:
            low = self.lora_A[name](self.lora_dropout[name](x))
            result = result + self.lora_B[name](low) * self.scaling[name]
        return result


def test_adapters_are_clean():
    found = look(nn.Sequential(Adapter(), nn.Tanh()), torch.randn(2, 8))
    assert found.verdict() is None, found.detail


def test_a_scripted_child_is_clean_once_it_has_run():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    block = nn.Sequential(child, nn.Linear(3, 3))
    assert look(block, torch.randn(2, 3)).verdict() == "global_effect"
    found = look(block, torch.randn(2, 3))
    assert found.verdict() is None, found.detail
    assert found.changing == {f"0.1.{name}" for name in (
        "running_mean", "running_var", "num_batches_tracked")}


@torch.jit.script
def scripted(x):
    return x * 2


def test_a_scripted_function_is_clean_once_it_has_run():
    block = Block(lambda self, x: scripted(x))
    assert look(block, torch.randn(2, 3)).verdict() == "global_effect"
    assert look(block, torch.randn(2, 3)).verdict() is None


def test_a_compiled_child_met_under_a_look_is_compiled_once():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    block = nn.Sequential(torch.compile(inner, backend=backend), nn.Linear(3, 3))
    x = torch.randn(2, 3)
    look(block, x)
    assert len(graphs) == 1
    block(x)
    look(block, x)
    assert torch.equal(block(x), block[1](inner(x)))
    assert len(graphs) == 1


def test_parameters_beyond_what_a_look_reads_in_full_are_clean(monkeypatch):
    memory = digest.of_memory
    monkeypatch.setattr(digest, "_BUDGET", 1 << 20)
    monkeypatch.setattr(digest, "of_memory", lambda address, size, stride: (
        stride, memory(address, size, stride)))
    block = nn.Sequential(*(nn.Linear(512, 400) for _ in range(2)))
    with Look(block, nn.Sequential.forward, (), {}) as watched:
        pass
    assert watched.verdict() is None
    with Look(block, nn.Sequential.forward, (), {}) as watched:
        block[1].weight.data.zero_()
    assert watched.verdict() == "mutates_parameters"


def test_a_look_keeps_nothing_alive():
    block, x = Block(), torch.randn(2, 3)
    found = look(block, x)
    gone = weakref.ref(block)
    del block
    assert gone() is None and found.verdict() is None
