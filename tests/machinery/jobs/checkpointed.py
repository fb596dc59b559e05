"""Jobs that checkpoint by themselves, or have saved-tensor hooks in force."""

import functools

import torch
import torch.nn as nn
from common import WIDTH, Tower, batch, loss_of, main, sgd, table, train
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from models import VOCABULARY, Block


class Checked(Tower):
    """Some of the blocks are called through checkpoint."""

    def __init__(self, reentrant, every=1, **options):
        super().__init__(**options)
        self.reentrant, self.every = reentrant, every

    def forward(self, x):
        x = self.into(x)
        for place, block in enumerate(self.h):
            if place % self.every == 0:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
            else:
                x = block(x)
        return self.out(x)


class Inner(nn.Module):
    """A block that checkpoints a part of itself."""

    def __init__(self, reentrant):
        super().__init__()
        self.block = Block(WIDTH, 2, 4 * WIDTH)
        self.more = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                  nn.Linear(4 * WIDTH, WIDTH))
        self.reentrant = reentrant

    def forward(self, x):
        y = checkpoint(self.block, x, use_reentrant=self.reentrant)
        return y + self.more(y)


def reentrant(steps, record):
    train(Checked(True), steps, record)


def not_reentrant(steps, record):
    train(Checked(False), steps, record)


def every_other_reentrant(steps, record):
    train(Checked(True, 2, depth=6), steps, record)


def every_other(steps, record):
    train(Checked(False, 2, depth=6), steps, record)


def inside(steps, record):
    train(Tower(4, functools.partial(Inner, False)), steps, record)


def inside_reentrant(steps, record):
    train(Tower(4, functools.partial(Inner, True)), steps, record)


def begins_later(steps, record):
    """From step 4 on, the job checkpoints."""
    model = Checked(False, every=100)

    def each(step):
        model.every = 1 if step >= 4 else 100
    train(model, steps + 2, record, each=each)


def ends_later(steps, record):
    """Up to step 3, the job checkpoints."""
    model = Checked(False)

    def each(step):
        model.every = 100 if step >= 3 else 1
    train(model, steps + 3, record, each=each)


def sequential(steps, record):
    blocks = nn.Sequential(*(Block(WIDTH, 2, 4 * WIDTH) for _ in range(6)))

    class Segments(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.h = nn.Linear(WIDTH, WIDTH), blocks

        def forward(self, x):
            return checkpoint_sequential(self.h, 3, self.into(x),
                                         use_reentrant=False)
    train(Segments(), steps, record)


def offloaded(steps, record):
    """save_on_cpu around the whole forward."""
    def loss(model, x):
        with torch.autograd.graph.save_on_cpu():
            return loss_of(model, x)
    train(Tower(), steps, record, loss)


def offloaded_in_part(steps, record):
    """save_on_cpu around two of the blocks, and a hook pair inside one."""
    class Part(Tower):
        def forward(self, x):
            x = self.into(x)
            with torch.autograd.graph.save_on_cpu():
                x = self.h[0](x)
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda t: t.clone(), lambda t: t):
                x = self.h[1](x)
            for block in self.h[2:]:
                x = block(x)
            return self.out(x)
    train(Part(), steps, record)


def hooks_inside(steps, record):
    """Saved-tensor hooks inside the blocks' own forwards."""
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(WIDTH, 2, 4 * WIDTH)

        def forward(self, x):
            with torch.autograd.graph.saved_tensors_hooks(
                    lambda t: (t.detach(), t._version), lambda p: p[0]):
                y = self.block(x)
            return y + torch.tanh(x) * x.sigmoid()
    train(Tower(5, Packs), steps, record)


def forbidden(steps, record):
    """The job forbids saved-tensor hooks in half of the forward."""
    class Part(Tower):
        def forward(self, x):
            x = self.into(x)
            with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
                for block in self.h[:2]:
                    x = block(x)
            for block in self.h[2:]:
                x = block(x)
            return self.out(x)
    train(Part(), steps, record)


def library(steps, record):
    """transformers' own switch, on from the start, off halfway, on again."""
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=64, intermediate_size=172, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, vocab_size=VOCABULARY))
    model.train()
    ids = torch.randint(VOCABULARY, (4, 96))
    optimizer = sgd(model)
    for step in range(steps + 2):
        if step == 0:
            model.gradient_checkpointing_enable()
        if step == 3:
            model.gradient_checkpointing_disable()
        if step == 7:
            model.gradient_checkpointing_enable({"use_reentrant": True})
            model.enable_input_require_grads()
        optimizer.zero_grad()
        value = model(input_ids=ids, labels=ids, use_cache=False).loss
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def by_hand(steps, record):
    """The job's own recompute: a forward inside a hook during backward."""
    model, x = Tower(), batch()
    optimizer = sgd(model)

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, block):
            ctx.block = block
            ctx.save_for_backward(y)
            ctx.state = torch.get_rng_state()
            with torch.no_grad():
                return block(y)

        @staticmethod
        def backward(ctx, gradient):
            y = ctx.saved_tensors[0].detach().requires_grad_()
            now = torch.get_rng_state()
            torch.set_rng_state(ctx.state)
            with torch.enable_grad():
                out = ctx.block(y)
            torch.set_rng_state(now)
            torch.autograd.backward(out, gradient)
            return y.grad, None

    for step in range(steps):
        optimizer.zero_grad()
        y = model.into(x)
        for place, block in enumerate(model.h):
            y = Again.apply(y, block) if place % 2 else block(y)
        value = (model.out(y) - x).square().mean()
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


JOBS = table(reentrant, not_reentrant, every_other_reentrant, every_other, inside,
             inside_reentrant, begins_later, ends_later, sequential, offloaded,
             offloaded_in_part, hooks_inside, forbidden, library, by_hand)

if __name__ == "__main__":
    main(JOBS, __doc__)
