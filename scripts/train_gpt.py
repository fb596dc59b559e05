#!/usr/bin/env python3
"""Train a small GPT on the bytes of text files that this machine already has.

The text is the licences in /usr/share/common-licenses, which every Debian and
Ubuntu machine carries; where there are none, the sources of Python's own
standard library. --text names other files.
"""

import argparse
import pathlib
import statistics
import sysconfig
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

LICENSES = pathlib.Path("/usr/share/common-licenses")
ENOUGH = 100_000  # bytes


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(batch, length, width)
        return self.dropout(self.project(y))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, context, dropout, by_hand):
        super().__init__()
        self.by_hand = by_hand
        self.token = nn.Embedding(256, width)
        self.position = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1])
        x = self.dropout(self.token(tokens) + self.position(places))
        for block in self.blocks:
            if self.by_hand:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_text(paths):
    """The text as a tensor of bytes, and one line that says what it is."""
    files = [pathlib.Path(p) for p in paths]
    if not files:
        files = sorted(p for p in LICENSES.glob("*")
                       if p.is_file() and not p.is_symlink())
        if sum(p.stat().st_size for p in files) < ENOUGH:
            library = pathlib.Path(sysconfig.get_path("stdlib"))
            files = sorted(library.glob("*.py"))
    data = b"".join(p.read_bytes() for p in files)
    folders = ", ".join(sorted({str(p.parent) for p in files}))
    line = f"{len(data):,} bytes of {len(files)} files in {folders}"
    return torch.frombuffer(bytearray(data), dtype=torch.uint8), line


def batch_of(text, batch, context):
    starts = torch.randint(len(text) - context - 1, (batch,))
    rows = torch.stack([text[s:s + context + 1] for s in starts]).long()
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", nargs="*", default=[], metavar="FILE")
    parser.add_argument("--checkpoint", action="store_true",
                        help="torch.utils.checkpoint on every block")
    parser.add_argument("--every", type=int, default=10, metavar="N",
                        help="print a line every N steps")
    parser.add_argument("--save", metavar="FILE",
                        help="write the weights and losses to FILE")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(options.seed)
    text, line = read_text(options.text)
    print(line, flush=True)
    model = GPT(options.layers, options.width, options.heads,
                options.context, options.dropout, options.checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    losses, times = [], []
    for step in range(1, options.steps + 1):
        begin = time.perf_counter()
        tokens, targets = batch_of(text, options.batch, options.context)
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1000 * (time.perf_counter() - begin))
        losses.append(loss.item())
        if step % options.every == 0 or step in (1, options.steps):
            print(f"step {step:4d}  loss {losses[-1]:.4f}  "
                  f"{times[-1]:6.0f} ms", flush=True)
    steady = statistics.median(times[len(times) // 3:])
    print(f"median step {steady:.1f} ms", flush=True)
    if options.save:
        torch.save({"weights": model.state_dict(), "losses": losses},
                   options.save)


if __name__ == "__main__":
    main()
