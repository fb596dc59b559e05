"""Training loops of other shapes than models.py's; used in the same way.

    python loops.py NAME --steps 8 --out digests.json
"""

import collections
import hashlib
import inspect
import io
import logging
import subprocess
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

from models import Block, command, gpt

WIDTH = 64


KEPT = []           # lives as long as the process


class Tower(nn.Module):
    """A row of equal blocks between two linear layers."""

    def __init__(self, depth, first=WIDTH, last=WIDTH):
        super().__init__()
        self.into = nn.Linear(first, WIDTH)
        self.h = nn.ModuleList(
            Block(WIDTH, 2, 4 * WIDTH) for _ in range(depth))
        self.out = nn.Linear(WIDTH, last)

    def forward(self, x):
        x = self.into(x)
        for block in self.h:
            x = block(x)
        return self.out(x)


class Shared(nn.Module):
    """One block called four times in each forward, between two others."""

    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList(
            Block(WIDTH, 2, 4 * WIDTH) for _ in range(3))
        self.order = (0, 1, 1, 1, 1, 2)

    def forward(self, x):
        for place in self.order:
            x = self.h[place](x)
        return x


def outward(model):
    """What a model shows to whoever looks at it, as one text."""
    lines = [f"{name}: {type(m).__module__}.{type(m).__qualname__} "
             f"{sorted(vars(m))} {isinstance(m, (nn.Module, Block))} "
             f"{inspect.signature(m.forward)} {inspect.signature(type(m).forward)} "
             f"{type(m).forward.__qualname__}" for name, m in model.named_modules()]
    lines += [f"{name} {tuple(p.shape)}" for name, p in model.named_parameters()]
    lines += [*model.state_dict(), repr(model), inspect.getsource(Block.forward)]
    saved = io.BytesIO()
    torch.save(model, saved)
    lines.append(hashlib.sha256(saved.getvalue()).hexdigest())
    return "\n".join(lines)


def looking(steps, record):
    """The model, its pickle and the environment are printed at every step."""
    model, x = Tower(6), torch.randn(16, 64, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        record.gradients(step, model)
        optimizer.step()
        print(step, outward(model))
        shown = subprocess.run(["env"], capture_output=True, text=True).stdout
        print(*sorted(line for line in shown.splitlines()
                      if not line.startswith(("CKPT_", "LD_PRELOAD=", "PYTEST_"))))
    record.weights(model)


def accumulation(steps, record):
    """Three micro-batches, each with its own backward, before a step."""
    model, (x, y), _ = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(3):
            loss = model(x[part:part + 1], y[part:part + 1]) / 3
            loss.backward()
            record.number(f"{step} loss {part}", loss.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def gan(steps, record):
    """Two models and two optimizers, whose steps take turns."""
    maker, judge = Tower(6), Tower(6, last=1)
    make = torch.optim.Adam(maker.parameters(), lr=1e-3)
    judging = torch.optim.Adam(judge.parameters(), lr=1e-3)
    real = torch.randn(16, 64, WIDTH)
    yes, no = torch.ones(16, 64, 1), torch.zeros(16, 64, 1)
    for step in range(steps):
        noise = torch.randn(16, 64, WIDTH)
        fake = maker(noise)
        judging.zero_grad()
        loss = (F.binary_cross_entropy_with_logits(judge(real), yes)
                + F.binary_cross_entropy_with_logits(
                    judge(fake.detach()), no))
        loss.backward()
        record.number(f"{step} loss of the judge", loss.item())
        record.gradients(f"{step} judge", judge)
        judging.step()
        make.zero_grad()
        loss = F.binary_cross_entropy_with_logits(judge(fake), yes)
        loss.backward()
        record.number(f"{step} loss of the maker", loss.item())
        record.gradients(f"{step} maker", maker)
        make.step()
    record.weights(nn.ModuleList([maker, judge]))


def by_hand(steps, record):
    """Parameters are updated by the loop itself: there is no Optimizer."""
    model, (x, y), _ = gpt()
    for step in range(steps):
        loss = model(x, y)
        loss.backward()
        record.number(f"{step} loss", loss.item())
        record.gradients(step, model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    record.weights(model)


def evaluation(steps, record):
    """A larger batch is evaluated between the steps, twice in two ways."""
    model, (x, y), _ = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        model.train()
        optimizer.zero_grad()
        loss = model(x[:2], y[:2])
        loss.backward()
        record.number(f"{step} loss", loss.item())
        record.gradients(step, model)
        optimizer.step()
        model.eval()
        with torch.no_grad():
            record.number(f"{step} held out", model(x, y).item())
        with torch.inference_mode():
            record.number(f"{step} once more", model(x, y).item())
    record.weights(model)


def roll(model, optimizer, steps, record):
    """Each row of a batch is to become the one before it."""
    x = torch.randn(16, 64, WIDTH)
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.roll(1, 0))
        loss.backward()
        record.number(f"{step} loss", loss.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def sharing(steps, record):
    """One module called several times in an iteration."""
    model = Shared()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    roll(model, optimizer, steps, record)


def raising(steps, record):
    """The loss of every third batch is refused after the forward."""
    model, (x, y), _ = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        try:
            loss = model(x, y)
            if step % 3 == 2:
                raise ValueError("a bad batch")
            loss.backward()
        except ValueError as error:
            record.values[f"{step} error"] = repr(error)
            continue
        record.number(f"{step} loss", loss.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def failing(steps, record):
    """The job ends with an exception that nobody catches."""
    model, (x, y), _ = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        print(f"step {step} loss {loss.item()!r}", flush=True)
        optimizer.step()
    raise RuntimeError("the job's own error")


class Residual(nn.Module):
    """Its last saved tensor is one of a module inside."""

    def __init__(self):
        super().__init__()
        self.inside = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.inside(x)


def retained(steps, record):
    """The graph of each step is alive when its optimizer steps; late, more is kept."""
    model = nn.Sequential(*(Residual() for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 64, WIDTH)
    for step in range(steps):
        optimizer.zero_grad()
        y = model(x)
        F.mse_loss(y, x).backward(retain_graph=True)
        record.gradients(step, model)
        optimizer.step()
        if step == steps - 2:
            kept = [p.detach().clone() for p in model.parameters()]
    record.number("kept", sum(p.sum().item() for p in kept))
    record.weights(model)


def lazy(steps, record):
    """The first call makes the parameters of some blocks."""
    model = Tower(6)
    for block in model.h[::2]:
        block.up = nn.LazyLinear(4 * WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    roll(model, optimizer, steps, record)


class Seldom(Block):
    """Writes to a tensor that is no buffer, in the first of four forwards."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.calls, self.mean = 0, torch.zeros(WIDTH)

    def forward(self, x):
        if self.calls % 4 == 0:
            self.mean.lerp_(x.detach().mean((0, 1)), 0.1)
        self.calls += 1
        return super().forward(x)


def seldom(steps, record):
    """A block has an effect in its first forward, and again much later."""
    model = Tower(6)
    model.h[2] = Seldom(WIDTH, 2, 4 * WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 64, WIDTH)
    for step in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        record.gradients(step, model)
        optimizer.step()
        record.number(f"{step} mean", model.h[2].mean.sum().item())
    record.weights(model)


class Telling(Block):
    """Logs a line and warns in the last of four forwards."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 4 == 0:
            logging.getLogger("telling").warning("%d calls", self.calls)
            warnings.warn("late", RuntimeWarning, stacklevel=1)
        return super().forward(x)


def telling(steps, record):
    """What blocks log and warn of is counted, long after they have been proven."""
    lines = []
    handler = logging.Handler()
    handler.emit = lines.append
    logging.getLogger("telling").addHandler(handler)
    model = Tower(6)
    for i in range(6):
        model.h[i] = Telling(WIDTH, 2, 4 * WIDTH)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        roll(model, torch.optim.SGD(model.parameters(), lr=0.1), steps, record)
    record.number("lines", len(lines))
    record.number("warnings", len(caught))


class Heads(nn.Module):
    """One of two stacks, by name."""

    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleDict({
            name: nn.ModuleList(Block(WIDTH, 2, 4 * WIDTH) for _ in range(4))
            for name in ("near", "far")})

    def forward(self, x, task):
        for block in self.stacks[task]:
            x = block(x)
        return x


def named(steps, record):
    """A word among the arguments chooses the path through the model."""
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(16, 64, WIDTH)
    for step in range(2 * steps):
        optimizer.zero_grad()
        F.mse_loss(model(x, ("near", "far")[step % 2]), x.roll(1, 0)).backward()
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def unfreezing(steps, record):
    """Only the last block is trained at first, then all of them."""
    model = Tower(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.requires_grad_(False)
    model.h[5].requires_grad_()
    roll(model, optimizer, 3, record)
    model.requires_grad_()
    roll(model, optimizer, steps, record)


def staged(steps, record):
    """The first half is trained alone, called by itself, then the whole model."""
    model = nn.Sequential(collections.OrderedDict(first=Tower(4), second=Tower(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    roll(model.first, optimizer, 5, record)
    roll(model, optimizer, steps, record)


def outgrowing(steps, record):
    """From the seventh step on the loss needs more than the blocks."""
    model, x = Tower(4), torch.randn(16, 64, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        out = model(x)
        wide = out.repeat(1, 1, 24) if step >= 6 else out
        loss = F.mse_loss(out, x.roll(1, 0)) + torch.tanh(wide).square().mean()
        loss.backward()
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def once(steps, record):
    """One backward, and nothing after it."""
    model, x = Tower(4), torch.randn(4, 64, WIDTH)
    F.mse_loss(model(x), x).backward()
    record.gradients(0, model)
    KEPT.append(model)


def forward_only(steps, record):
    """Forwards with gradients that nobody asks for."""
    model, x = Tower(4), torch.randn(4, 64, WIDTH)
    for step in range(steps):
        record.tensor(f"{step} out", model(x))
    KEPT.append(model)


class Switched(Block):
    """Does nothing until it is switched on."""

    on = False

    def forward(self, x):
        return super().forward(x) if self.on else x


def switching(steps, record):
    """Most blocks are switched on only after a while."""
    model = Tower(6)
    for i in range(1, 6):
        model.h[i] = Switched(WIDTH, 2, 4 * WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    roll(model, optimizer, 9, record)
    for block in model.h[1:]:
        block.on = True
    roll(model, optimizer, steps, record)


LOOPS = {f.__name__: f for f in (
    accumulation, gan, by_hand, evaluation, sharing, raising, failing,
    looking, retained, lazy, seldom, telling, named, unfreezing,
    switching, staged, once,
    forward_only, outgrowing)}


if __name__ == "__main__":
    command(LOOPS, __doc__)
