"""Jobs whose blocks, or whose use of them, change after some steps.

Each begins as an ordinary loop; what is special begins at step LATE, when the
agent has long proven the blocks and recomputes them.
"""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import WIDTH, Tower, batch, loss_of, main, sgd, table, train

from models import Block

LATE = 5
_log = []
_counter = {"calls": 0, "scale": 1.0}
_scale = [1.0]
_private = torch.Generator().manual_seed(7)


class Body(nn.Module):
    """Norm, up, down: what the special blocks below are built on."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def body(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x):
        return x + self.body(x)


class Scaled(Body):
    """Reads a global scale, twice, so that it is seen in what is saved."""

    def forward(self, x):
        return x + torch.tanh(self.body(x) * _scale[0]) * _scale[0]


class Appends(Body):
    """Every third call after a while, a number is added to a global list."""

    def forward(self, x):
        if _counter["late"]:
            self.count = getattr(self, "count", 0) + 1
            if self.count % 3 == 0:
                _log.append(self.count)
        return x + self.body(x)


class Counts(Body):
    """After a while, a global counter goes up and the result depends on it."""

    def forward(self, x):
        if _counter["late"]:
            _counter["calls"] += 1
        return x + self.body(x * (1 + 0.01 * _counter["calls"]))


class Draws(Body):
    """After a while, noise from generators that the shim has not seen."""

    def forward(self, x):
        if _counter["late"]:
            x = x + 0.1 * torch.rand(x.shape, generator=_private)
            x = x * (1 + 0.01 * random.random())
        return x + self.body(x)


class Growing(Body):
    """After a while, keeps what it saw and attends to it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        y = self.body(x)
        if _counter["late"]:
            self.seen.append(x.detach().mean((0, 1)))
            y = y + torch.tanh(y) * torch.stack(self.seen).mean(0)
        return x + y


class Statistics(Body):
    """After a while, a buffer follows the input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        if _counter["late"]:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean((0, 1)))
        return x + torch.tanh(self.body(x) - self.mean)


class Adapted(Body):
    """A low-rank addition that can be switched."""

    def __init__(self):
        super().__init__()
        self.adapters = nn.ModuleDict({
            name: nn.Linear(WIDTH, WIDTH, bias=False) for name in ("one", "two")})
        self.active = "one"

    def forward(self, x):
        y = self.body(x)
        if self.active is not None:
            y = y + torch.tanh(self.adapters[self.active](x)) * y.sigmoid()
        return x + y


class InPlace(Body):
    """After a while, writes to its input."""

    def forward(self, x):
        y = self.body(x.clone())
        return (x.add_(y) if _counter["late"] else x + y) * 1.0


class Raises(Body):
    """After a while, raises on one of the calls."""

    def forward(self, x):
        if _counter["late"] and x.mean() > -1 and _counter["calls"] == 3:
            _counter["calls"] += 1
            raise ValueError("not this one")
        _counter["calls"] += _counter["late"]
        return x + self.body(x)


def late(step):
    _counter["late"] = step >= LATE


def simple(block):
    """A job with these blocks and nothing else that is special."""
    def job(steps, record):
        model = Tower(4, block)
        train(model, steps + 2, record, each=late)
        record.values["log"] = repr((_log, _counter["calls"]))
        record.tensor("private stream", _private.get_state())
        for name, module in model.named_modules():
            record.values[f"attributes {name}"] = repr(
                {k: v for k, v in vars(module).items() if isinstance(v, (int, list))})
    return job


def appends(steps, record):
    simple(Appends)(steps, record)


def counts(steps, record):
    simple(Counts)(steps, record)


def draws(steps, record):
    simple(Draws)(steps, record)


def growing(steps, record):
    simple(Growing)(steps, record)


def statistics(steps, record):
    simple(Statistics)(steps, record)


def in_place(steps, record):
    simple(InPlace)(steps, record)


def scale_around_forward(steps, record):
    """From LATE on, a global scale is set for the forward alone."""
    at = [0]

    def loss(model, x):
        _scale[0] = 2.0 if at[0] >= LATE else 1.0
        try:
            return loss_of(model, x)
        finally:
            _scale[0] = 1.0
    train(Tower(4, Scaled), steps + 2, record, loss,
          lambda step: at.__setitem__(0, step))


def attribute_around_forward(steps, record):
    """The same with an attribute of the blocks, and once with their class's."""
    at = [0]
    Body.strength = 1.0

    class Strong(Body):
        def forward(self, x):
            return x + torch.tanh(self.body(x) * self.strength) * self.strength

    def loss(model, x):
        if at[0] == LATE:
            Strong.strength = 3.0
        if at[0] > LATE:
            for block in model.h:
                block.strength = 0.5
        try:
            return loss_of(model, x)
        finally:
            if at[0] == LATE:
                Strong.strength = 1.0
            for block in model.h:
                vars(block).pop("strength", None)
    train(Tower(4, Strong), steps + 2, record, loss,
          lambda step: at.__setitem__(0, step))


def adapter_switched(steps, record):
    """Another adapter from step 3 on; between forward and backward from LATE."""
    model, x = Tower(4, Adapted), batch()
    optimizer = sgd(model)

    def switch(name):
        for block in model.h:
            block.active = name
    for step in range(steps + 2):
        switch("one" if step < 3 else "two")
        optimizer.zero_grad()
        value = loss_of(model, x)
        if step >= LATE:
            switch(None if step % 2 else "one")
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def evaluated_halfway(steps, record):
    """eval() in the middle of the training, for good; train() once more at last."""
    model = Tower(4, lambda: Block(WIDTH, 2, 4 * WIDTH, dropout=0.3))

    def each(step):
        model.train(step < LATE - 1 or step > LATE + 1)
    train(model, steps + 3, record, each=each)


def one_block_evaluated(steps, record):
    """Two of the blocks go to eval() at LATE, one of them before its backward."""
    model, x = Tower(4, lambda: Block(WIDTH, 2, 4 * WIDTH, dropout=0.3)), batch()
    optimizer = sgd(model)
    for step in range(steps + 2):
        optimizer.zero_grad()
        value = loss_of(model, x)
        if step >= LATE:
            model.h[1].eval()
            model.h[2].train(step % 2 == 0)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def data_written(steps, record):
    """From LATE on, weights are changed behind autograd's back before backward.

    Plain autograd computes with the new weights; so must the job with the agent,
    or it must say that it cannot.
    """
    model, x = Tower(4, Body), batch()
    optimizer = sgd(model)
    for step in range(steps + 2):
        optimizer.zero_grad()
        value = loss_of(model, x)
        if step >= LATE:
            for block in model.h:
                block.up.weight.data.mul_(0.5)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def frozen_later(steps, record):
    """Blocks are frozen from LATE on, one more each step."""
    model, x = Tower(4, Body), batch()
    optimizer = sgd(model)
    for step in range(steps + 2):
        if step >= LATE:
            model.h[step - LATE].requires_grad_(False)
        optimizer.zero_grad()
        value = loss_of(model, x)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def hooks_later(steps, record):
    """A counting hook, then one that changes outputs, appear inside blocks."""
    model, seen = Tower(4, Body), []

    def each(step):
        if step == LATE:
            model.h[1].up.register_forward_hook(
                lambda module, args, out: seen.append(float(out.detach().mean())))
        if step == LATE + 1:
            model.h[2].up.register_forward_hook(lambda module, args, out: out * 0.5)
    train(model, steps + 2, record, each=each)
    record.values["seen"] = repr(seen)


def forward_replaced(steps, record):
    """A block gets another forward at LATE: on the instance, then on the class."""
    class Own(Body):
        pass

    model = Tower(4, Own)

    def each(step):
        if step == LATE:
            block = model.h[1]
            block.forward = lambda x: x + 2 * block.body(x)
        if step == LATE + 1:
            Own.forward = lambda self, x: x + 0.5 * self.body(x).tanh()
    train(model, steps + 3, record, each=each)


def stepped_before_backward(steps, record):
    """From LATE on, the step of another optimizer comes between; one frame waits.

    The first optimizer's step changes weights that the waiting graph saved:
    its backward runs through inputs alone.
    """
    model, x = Tower(4, Body), batch()
    optimizer = sgd(model)
    probe = nn.Parameter(torch.zeros(WIDTH))
    other = torch.optim.SGD([probe], lr=0.1)
    for step in range(steps + 2):
        optimizer.zero_grad()
        waiting = F.mse_loss(model(x + probe), x.roll(1, 0))
        if step >= LATE:
            value = loss_of(model, x)
            value.backward()
            other.step()
            record.number(f"{step} value", value.item())
        waiting.backward()
        record.number(f"{step} loss", waiting.item())
        record.gradients(step, model)
        optimizer.step()
        probe.grad = None
    record.weights(model)


def several_steps_apart(steps, record):
    """A backward comes two steps after its forward; parameters are swapped by
    copies, so that plain autograd still has what it saved."""
    model, x = Tower(4, Body), batch()
    old = []
    for step in range(steps + 3):
        value = loss_of(model, x * (1 + 0.1 * step))
        old.append((value, list(model.parameters())))
        if len(old) > 2:
            value, parameters = old.pop(0)
            for parameter in parameters:
                parameter.grad = None
            value.backward()
            record.number(f"{step} loss", value.item())
            now = dict(model.named_parameters())
            for (name, parameter), then in zip(now.items(), parameters):
                record.tensor(f"{step} gradient {name}", then.grad)
                fresh = nn.Parameter(parameter.detach() - 0.1 * then.grad)
                owner, _, key = name.rpartition(".")
                setattr(model.get_submodule(owner), key, fresh)
    record.weights(model)


def waiting_for_step(steps, record):
    """A graph waits while an optimizer steps twice over detached copies."""
    model, x = Tower(4, Body), batch()
    optimizer = sgd(model)
    for step in range(steps + 2):
        optimizer.zero_grad()
        waiting = model(x)
        gradient = torch.autograd.grad(loss_of(model, x), list(model.parameters()))
        if step >= LATE:
            before = [p.detach().clone() for p in model.parameters()]
            for p, g in zip(model.parameters(), gradient):
                p.grad = g
            optimizer.step()
            record.weights(model)
            with torch.no_grad():
                for p, b in zip(model.parameters(), before):
                    p.data = b          # as autograd saw it: the version is not raised
            optimizer.zero_grad()
        try:
            waiting.square().mean().backward()
        except RuntimeError as error:
            record.values[f"{step} error"] = type(error).__name__
            optimizer.zero_grad()
            continue
        record.gradients(step, model)
        optimizer.step()


def raises_later(steps, record):
    """A block raises once, the step is left out."""
    model, x = Tower(4, Raises), batch()
    optimizer = sgd(model)
    for step in range(steps + 3):
        late(step)
        optimizer.zero_grad()
        try:
            value = loss_of(model, x)
        except ValueError as error:
            record.values[f"{step} error"] = str(error)
            continue
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


_counter["late"] = False
JOBS = table(appends, counts, draws, growing, statistics, in_place,
             scale_around_forward, attribute_around_forward, adapter_switched,
             evaluated_halfway, one_block_evaluated, data_written, frozen_later,
             hooks_later, forward_replaced, stepped_before_backward,
             several_steps_apart, waiting_for_step, raises_later)

if __name__ == "__main__":
    main(JOBS, __doc__)
