"""Jobs that name their work with NVTX ranges; used in the same way as models.py.

    python ranged.py NAME --steps 6 --out digests.json
"""

import contextlib
import functools

import nvtx
import torch
import torch.nn as nn

from models import Block, command

WIDTH = 64
LAYERS = 6
INNER = (4, 1, 8, 2, 4, 6)      # the layers' inner widths differ

now = 0                         # the step in progress


def around(text):
    return nvtx.annotate(text)


class Row(nn.Module):
    """Layers in a row, each under what `names` gives for its place."""

    def __init__(self, names, layers=LAYERS):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.h = nn.ModuleList(Block(WIDTH, 2, INNER[i] * WIDTH)
                               for i in range(layers))
        self.names = names

    def forward(self, x):
        x = self.first(x)
        for i, layer in enumerate(self.h):
            with self.names(i):
                x = layer(x)
        return x


class Pairs(Row):
    """Two layers a range, the last two in ranges of their own besides."""

    def forward(self, x):
        for i in range(0, len(self.h), 2):
            with around(f"pair {i // 2}"):
                for layer in (self.h[i], self.h[i + 1]):
                    own = i == 4 and around(f"layer {i + (layer is self.h[5])}")
                    with own or contextlib.nullcontext():
                        x = layer(x)
        return x


class Stages(nn.Module):
    """Two rows, each in a range, of layers that are in ranges as well."""

    def __init__(self):
        super().__init__()
        self.rows = nn.ModuleList(
            Row(lambda i, row=row: around(f"layer {row}.{i}"), 4)
            for row in range(2))

    def forward(self, x):
        for i, row in enumerate(self.rows):
            with around(f"stage {i}"):
                x = row(x)
        return x


class Started(Row):
    """Ranges that are started and ended rather than pushed and popped."""

    def forward(self, x):
        for i, layer in enumerate(self.h):
            handle = nvtx.start_range(f"layer {i}")
            x = layer(x)
            nvtx.end_range(handle)
        return x


def layers():
    return Row(lambda i: around(f"layer {i}"))


def same():
    return Row(lambda i: around("layer"))


def varying():
    return Row(lambda i: around(f"layer {i} of step {now}"))


def pairs():
    return Pairs(around)


def stages():
    return Stages()


def started():
    return Started(around)


def several():
    """One range around everything in the model."""
    class Several(Row):
        def forward(self, x):
            with around("all layers"):
                return super().forward(x)
    return Several(lambda i: contextlib.nullcontext())


def none():
    return Row(lambda i: contextlib.nullcontext())


whole = epoch = late_epoch = none       # in ranges around calls of the model


class ByHand(Row):
    """Never called itself: the script runs its layers."""


def by_hand():
    return ByHand(lambda i: around(f"layer {i}"))


JOBS = {f.__name__: f for f in (
    layers, same, varying, pairs, stages, started, several, none, by_hand)}
JOBS.update(whole=whole, epoch=epoch, late_epoch=late_epoch)


def run(name, model, x):
    if name == "by_hand":
        return Row.forward(model, x)
    if name in ("none", "epoch", "late_epoch"):
        return model(x)
    with around("forward") if name == "whole" else around(f"step {now}"):
        return model(x)


def train(name, steps, record):
    global now
    model = JOBS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(4, 192, WIDTH)
    for now in range(steps):
        if (name, now) in (("epoch", 0), ("late_epoch", 1)):
            nvtx.push_range("epoch")
        if (name, now) == ("late_epoch", 3):
            nvtx.pop_range()
        optimizer.zero_grad()
        loss = run(name, model, x).square().mean()
        loss.backward()
        record.number(f"{now} loss", loss.item())
        record.gradients(now, model)
        optimizer.step()
        del loss
    record.weights(model)


if __name__ == "__main__":
    command({name: functools.partial(train, name) for name in JOBS}, __doc__)
