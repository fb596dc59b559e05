"""Jobs under autocast and with a GradScaler."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import WIDTH, Tower, batch, loss_of, main, sgd, table, train

HALF = {"device_type": "cpu", "dtype": torch.bfloat16}


class Islands(nn.Module):
    """A block that leaves autocast for a norm and enters it again in there."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = F.layer_norm(x.float(), (WIDTH,)) * self.scale
            with torch.autocast(**HALF):
                z = self.down(F.gelu(self.up(y)))
            y = F.softmax(z.float(), -1)
        return x + z * y


class Weights(nn.Module):
    """One weight is used twice: the second use finds the cached cast."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        y = F.gelu(self.up(self.mix(torch.tanh(self.mix(x)))))
        return x + F.linear(y, self.up.weight.t())


def autocast(steps, record):
    """The forward and the loss in bf16."""
    def loss(model, x):
        with torch.autocast(**HALF):
            return loss_of(model, x)
    train(Tower(), steps, record, loss)


def backward_inside(steps, record):
    """The backward runs inside the context as well."""
    model, x = Tower(block=Weights), batch()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast(**HALF):
            value = loss_of(model, x)
            value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def weight_cache(steps, record):
    """Two forwards in one context share the cache; then one without it."""
    def loss(model, x):
        with torch.autocast(**HALF):
            value = loss_of(model, x) + loss_of(model, x * 0.5)
        with torch.autocast(**HALF, cache_enabled=False):
            return value + loss_of(model, x + 0.1)
    train(Tower(3, Weights), steps, record, loss)


def no_grad_first(steps, record):
    """A forward without gradients fills the cache that the next one meets."""
    def loss(model, x):
        with torch.autocast(**HALF):
            with torch.no_grad():
                teacher = model(x)
            return F.mse_loss(model(x).float(), teacher.float() + x)
    train(Tower(4, Weights), steps, record, loss)


def nested(steps, record):
    """Contexts inside contexts, with regions that switch them off."""
    def loss(model, x):
        with torch.autocast(**HALF):
            with torch.autocast("cpu", dtype=torch.float16):
                y = model.into(x)
                for place, block in enumerate(model.h):
                    with torch.autocast("cpu", enabled=place % 2 == 0,
                                        dtype=torch.bfloat16):
                        y = block(y if place % 2 == 0 else y.float())
            return F.mse_loss(model.out(y).float(), x)
    train(Tower(4, Islands), steps, record, loss)


def whole(steps, record):
    """The same through the model's own forward."""
    def loss(model, x):
        with torch.autocast(**HALF):
            return loss_of(model, x)
    train(Tower(4, Islands), steps, record, loss)


def switching(steps, record):
    """Every other step runs without autocast."""
    at = [0]

    def loss(model, x):
        with torch.autocast(**HALF, enabled=at[0] % 2 == 0):
            return loss_of(model, x)
    train(Tower(), steps, record, loss, lambda step: at.__setitem__(0, step))


def scaler(steps, record):
    """GradScaler, with a gradient that overflows in one of the steps."""
    model, x = Tower(), batch()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaling = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=2)
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = loss_of(model, x)
        if step == 4:
            value = value * float("inf")
        scaling.scale(value).backward()
        scaling.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        scaling.step(optimizer)
        scaling.update()
        record.number(f"{step} scale", scaling.get_scale())
    record.weights(model)


JOBS = table(autocast, backward_inside, weight_cache, no_grad_first, nested, whole,
             switching, scaler)

if __name__ == "__main__":
    main(JOBS, __doc__)
