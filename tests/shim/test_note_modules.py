"""A block's modules are put back for a recompute, and the present afterwards."""

import collections
import gc
import random
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from ckptshim import contents, outside
from ckptshim.note import Note, Scope
from past import assert_same, forward, recompute, world


class Block(nn.Module):
    """Depends on everything that a module can hold."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.tail = nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 4))
        self.register_buffer("tokens", torch.zeros((), dtype=torch.int64))
        self.scale = 1.0
        self.calls = 0
        self.items = [1.0, 2.0]
        self.table = {"gain": 1.5}
        self.queue = collections.deque([1.0], maxlen=3)
        self.names = {"a"}
        self.generator = torch.Generator()
        self.python = random.Random(1)
        self.numpy = np.random.default_rng(1)
        self.legacy = np.random.RandomState(1)
        self.state = None

    def forward(self, x):
        self.calls += 1
        self.tokens += len(x)
        self.items.append(float(self.calls))
        self.table["n"] = self.table.get("n", 0) + 1
        self.queue.append(self.calls)
        self.names.add(str(self.calls))
        self.late = self.calls
        noise = torch.rand(4, generator=self.generator) + self.python.random()
        noise = noise + self.numpy.random() + self.legacy.random()
        h = self.tail(self.norm(self.line(x)) * self.scale) + noise
        if self.state is not None:
            h = h + self.state
        self.state = h.mean(dim=0)
        return (h * sum(self.items) * self.table["gain"] * sum(self.queue)
                * len(self.names) + self.tokens)


@pytest.fixture(name="block")
def _block():
    block = Block()
    forward(Scope(block), block, torch.randn(3, 4))
    return block


def replace_parts(block):
    block.line = nn.Linear(4, 4)
    block.norm.weight = nn.Parameter(torch.full((4,), 3.0))


def replace_containers(block):
    block.items = [7.0]
    block.table = {"gain": 9.0}


def reorder(block):
    del block.scale
    block.scale = 3.0


CHANGES = {
    "nothing": lambda block: None,
    "evaluation": lambda block: block.eval(),
    "an attribute": lambda block: setattr(block, "scale", 2.0),
    "a new attribute": lambda block: setattr(block, "extra", 2.0),
    "an attribute gone": lambda block: delattr(block, "late"),
    "the order of attributes": reorder,
    "contents": lambda block: (block.items.clear(), block.table.update(gain=7.0)),
    "containers": replace_containers,
    "modules and parameters": replace_parts,
    "generators": lambda block: (block.generator.manual_seed(9), block.numpy.random(),
                                 block.python.seed(3), block.legacy.seed(3)),
    "a hook on a layer": lambda block: block.line.register_forward_hook(
        lambda module, args, out: out * 2),
    "a hook before a layer": lambda block: block.line.register_forward_pre_hook(
        lambda module, args: (args[0] * 2,)),
    "frozen": lambda block: block.requires_grad_(False),
    "a buffer": lambda block: block.tokens.fill_(77),
    "other memory for a parameter": lambda block: setattr(
        block.line.weight, "data", torch.rand(4, 4)),
    "a parameter's memory given back": lambda block: setattr(
        block.line.weight, "data", torch.empty(0)),
    "other memory for a buffer": lambda block: setattr(
        block.tokens, "data", torch.tensor(5)),
    "a buffer replaced": lambda block: setattr(block, "tokens", torch.tensor(5)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("known", [False, True])
def test_a_recompute_sees_the_past_and_leaves_the_present(block, change, known):
    scope, x = Scope(block), torch.randn(3, 4)
    if known:
        forward(scope, block, x)
        scope.learn({"tokens", "norm.running_mean", "norm.running_var",
                     "norm.num_batches_tracked"}, outside.NOTHING)
    old = [block.line, block.norm.weight]
    note, result = forward(scope, block, x)
    change(block)
    for _ in range(2):
        again = recompute(note, block)
        assert torch.equal(result, again)
        assert again.requires_grad
    del old


def test_an_unknown_training_mode_makes_all_buffers_count(block):
    scope, x = Scope(block.eval()), torch.randn(3, 4)
    forward(scope, block, x)
    scope.learn({"tokens"}, outside.NOTHING)
    assert scope.is_known(block)
    block.train()
    assert not scope.is_known(block)
    note, result = forward(scope, block, x)
    assert torch.equal(result, recompute(note, block))


def test_an_exception_in_a_recompute_leaves_the_present(block):
    scope = Scope(block)
    note, _ = forward(scope, block, torch.randn(3, 4))
    block.eval()
    before = world(block)

    def fail(module, x):
        Block.forward(module, x)
        module.items.clear()
        module.oops = 1
        torch.set_default_dtype(torch.float64)
        raise KeyboardInterrupt

    present = note.enter()
    with pytest.raises(KeyboardInterrupt):
        try:
            note.call(fail, block)
        finally:
            note.leave(present)
    assert_same(before, world(block))


def test_versions_of_changing_buffers_do_not_move(block):
    scope, x = Scope(block), torch.randn(3, 4)
    note, _ = forward(scope, block, x)
    product = block.tokens * torch.ones(1, requires_grad=True)
    recompute(note, block)
    product.backward()                  # raises if the saved buffer's version moved


def test_nothing_is_written_where_nothing_differs():
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    block.table = {"a": 1}
    note = Note.take(Scope(block), block, (), {})

    class Guarded(dict):
        def __setitem__(self, *_):
            raise AssertionError("written to")

    block.__dict__["_parameters"] = Guarded(block._parameters)
    running = block[1].running_mean.data_ptr()
    note.leave(note.enter())
    assert block[1].running_mean.data_ptr() == running


def test_a_spectral_norm_iterates_as_before():
    block = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU())
    note, result = forward(Scope(block), block, torch.randn(3, 4))
    assert torch.equal(result, recompute(note, block))


def test_a_scripted_child_with_batch_norm_is_put_back():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = torch.jit.script(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)))
    block = nn.Sequential(child, nn.ReLU())
    note, result = forward(Scope(block), block, torch.randn(3, 4))
    child.eval()
    means = child.state_dict()["0.running_mean"].clone()
    present = note.enter()
    again = note.call(nn.Sequential.forward, block)
    note.leave(present)
    assert torch.equal(result, again) and not child.training
    assert torch.equal(child.state_dict()["0.running_mean"], means)


def test_what_was_written_to_since_is_named(block):
    x, scale = torch.randn(3, 4), torch.ones(1)
    scope = Scope(block)
    note = Note.take(scope, block, (x, [scale]), {})
    assert note.changed_versions() == []
    scale.add_(1)
    with torch.no_grad():
        block.line.bias.add_(1)
    assert note.changed_versions() == ["input 1", "parameter line.bias"]


def test_a_large_buffer_that_was_not_known_to_change_is_named(block):
    block.register_buffer("large", torch.zeros(contents.SMALL))
    scope = Scope(block)
    Note.take(scope, block, (), {})
    scope.learn(set(), outside.NOTHING)
    note = Note.take(scope, block, (), {})
    block.large += 1
    assert note.changed_versions() == ["buffer large"]


def test_a_buffer_that_the_job_has_moved_is_remembered_from_then_on(block):
    block.register_buffer("large", torch.zeros(contents.SMALL))
    scope = Scope(block)
    Note.take(scope, block, (), {})
    scope.learn(set(), outside.NOTHING)
    block.large += 1
    note = Note.take(scope, block, (), {})
    block.large += 1
    assert note.changed_versions() == []
    present = note.enter()
    assert block.large[0] == 1
    note.leave(present)
    assert block.large[0] == 2


def test_a_small_buffer_that_the_job_changes_is_seen_as_it_was(block):
    scope = Scope(block)
    Note.take(scope, block, (), {})
    scope.learn(set(), outside.NOTHING)
    note = Note.take(scope, block, (), {})
    block.tokens += 5
    version = block.tokens._version
    assert note.changed_versions() == []
    present = note.enter()
    assert block.tokens == 3            # of the fixture's forward
    note.leave(present)
    assert block.tokens == 8 and block.tokens._version == version


def test_a_small_buffer_that_asks_for_a_gradient_is_one_all_the_same(block):
    block.register_buffer("learned", torch.zeros(3, requires_grad=True))
    scope = Scope(block)
    Note.take(scope, block, (), {})
    scope.learn(set(), outside.NOTHING)
    note = Note.take(scope, block, (), {})
    with torch.no_grad():
        block.learned += 1
    present = note.enter()
    assert block.learned[0] == 0
    note.leave(present)
    assert block.learned[0] == 1


def test_a_small_parameter_that_is_not_trained_is_seen_as_it_was(block):
    block.gain = nn.Parameter(torch.tensor(2.0), requires_grad=False)
    scope = Scope(block)
    Note.take(scope, block, (), {})
    scope.learn(set(), outside.NOTHING)
    note = Note.take(scope, block, (), {})
    block.gain.fill_(7.0)
    version = block.gain._version
    assert note.changed_versions() == []
    with torch.no_grad():
        block.line.bias += 1.0          # trained: nothing of the kind
    assert note.changed_versions() == ["parameter line.bias"]
    present = note.enter()
    assert block.gain.item() == 2.0
    note.leave(present)
    assert block.gain.item() == 7.0 and block.gain._version == version


def test_a_note_does_not_keep_the_block_alive():
    gc.disable()
    try:
        block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        scope = Scope(block)
        note, _ = forward(scope, block, torch.randn(3, 4))
        gone = weakref.ref(block), weakref.ref(block[0])
        del block
        assert [r() for r in gone] == [None, None]
    finally:
        gc.enable()
    with pytest.raises(ReferenceError):
        note.enter()


def test_a_module_that_keeps_its_last_output_chains_no_iterations():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(4, 4)
            self.last, self.pair, self.all = None, (None,), [None]

        def forward(self, x):
            self.last = self.line(x)
            self.pair, self.all = (self.last,), [self.last]
            return self.last

    class Mark(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, note):
            ctx.note = note             # as a frame's handles do
            return x + 0

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    block = Keeps()
    scope, living = Scope(block), []

    class Held(list):
        pass

    for _ in range(5):
        note = Held([Note.take(scope, block, (torch.randn(3, 4),), {})])
        out = Mark.apply(block(torch.randn(3, 4)), note)
        block.last, block.pair, block.all = out, (out,), [out]
        living.append(weakref.ref(note))
        del note, out
    assert sum(ref() is not None for ref in living) == 1




def test_parameters_frozen_since_want_gradients_again():
    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    note, _ = forward(Scope(block), block, torch.randn(3, 4))
    block[0].weight.requires_grad_(False)
    block[0].bias.requires_grad_(False)
    assert recompute(note, block).requires_grad
    assert not block[0].weight.requires_grad


def test_the_order_of_attributes_is_that_of_the_present():
    block = nn.ReLU()
    block.first, block.second = 1, 2
    scope = Scope(block)
    notes = [Note.take(scope, block, (torch.ones(1),), {}) for _ in range(2)]
    block.third = 3
    recompute(notes[0], block)
    del block.first
    block.first = 1
    recompute(notes[1], block)


def test_a_scope_follows_modules_that_come_and_go(block):
    scope, x = Scope(block), torch.randn(3, 4)
    forward(scope, block, x)
    block.tail.append(nn.Linear(4, 4))
    note, result = forward(scope, block, x)
    assert torch.equal(result, recompute(note, block))
    del block.tail[2]
    note, result = forward(scope, block, x)
    assert torch.equal(result, recompute(note, block))
