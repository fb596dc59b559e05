"""Models whose blocks save none of their inputs; used as models.py is.

    python inputs.py NAME --steps 5 --out digests.json

What becomes of an input after its block is the model's affair: it is let go at
once, or seen as a view, or shared by all blocks, or kept in a list.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from models import command

WIDTH, INNER, BATCH, DEPTH = 64, 128, 256, 6


class PostNorm(nn.Module):
    """Adds to its input at once; the sum is what autograd saves."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.up = nn.Linear(WIDTH, INNER)
        self.down = nn.Linear(INNER, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, bias=None):
        x = x + self.shift
        if bias is not None:
            x = x + bias
        return self.norm(x + self.down(F.gelu(self.up(x))))


class Stack(nn.Module):
    """Ends with a wide layer, so that the peak stands behind the last block."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(WIDTH, WIDTH)
        self.h = nn.ModuleList(PostNorm() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, 16 * WIDTH)

    def blocks(self, x):
        for block in self.h:
            x = block(x)
        return x

    def forward(self, x):
        x = self.blocks(self.into(x))
        return self.head(x).square().mean()


class Viewed(Stack):
    """A block gets a view; what it is a view of goes with it."""

    def blocks(self, x):
        for block in self.h:
            x = block(x.t().contiguous().t())
        return x


class Shared(Stack):
    """All blocks get one more tensor, which is gone after the last."""

    def blocks(self, x):
        bias = 0.5 * x
        for block in self.h:
            x = block(x, bias)
        return x


class Listed(Stack):
    """The inputs are in a list until the last block has run."""

    def blocks(self, x):
        states = []
        for block in self.h:
            states.append(x)
            x = block(x)
        return x


class Kept(Stack):
    """The inputs are in a list until the next forward."""

    def blocks(self, x):
        self.states = []
        for block in self.h:
            self.states.append(x)
            x = block(x)
        return x


def train(kind):
    def job(steps, record):
        model = kind()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        inputs = torch.randn(BATCH, WIDTH)
        for step in range(steps):
            optimizer.zero_grad()
            loss = model(inputs)
            loss.backward()
            record.number(f"{step} loss", loss.item())
            record.gradients(step, model)
            optimizer.step()
            del loss
    return job


JOBS = {"post_norm": train(Stack), "viewed": train(Viewed),
        "shared": train(Shared), "listed": train(Listed), "kept": train(Kept)}

if __name__ == "__main__":
    command(JOBS, __doc__)
