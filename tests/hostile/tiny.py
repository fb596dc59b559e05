"""A model small enough to be trained hundreds of times, and digests of it."""

import gc
import hashlib

import torch
import torch._dynamo  # what an optimizer imports, once for all children
import torch.nn as nn

WIDTH = 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + nn.functional.dropout(self.down(y), 0.1, self.training)


class Model(nn.Module):
    """A row of equal blocks."""

    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def about_to_fork():
    """Children that end in the ordinary way need not visit all that torch made."""
    gc.collect()
    gc.freeze()


def digest(tensors):
    """Sixteen hex digits of every bit."""
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(b"none" if tensor is None else
                     tensor.detach().contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


def gradients(model):
    return digest(p.grad for p in model.parameters())


class Training:
    """A model with its optimizer and data; step() is one ordinary iteration."""

    def __init__(self, depth=4, rows=64):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = Model(depth)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1,
                                         momentum=0.9)
        self.x = torch.randn(rows, WIDTH)

    def loss(self):
        self.optimizer.zero_grad()
        return (self.model(self.x) - self.x.roll(1, 0)).square().mean()

    def step(self, backward=torch.Tensor.backward):
        """The gradients' digest; backward is called with the loss."""
        loss = self.loss()
        backward(loss)
        self.optimizer.step()
        return gradients(self.model)

    def state(self):
        """A digest of weights and of the random stream."""
        return digest([*self.model.parameters(), torch.get_rng_state()])
