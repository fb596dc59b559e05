"""What the jobs in this folder share: models, a loop, a command line.

Each script is an ordinary training job that knows nothing of the agent:

    python precision.py NAME --steps 7 --out digests.json
"""

import argparse
import os
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from models import Block, Record, seed, write  # noqa: E402

WIDTH = 64


class Tower(nn.Module):
    """A row of equal blocks between two linear layers."""

    def __init__(self, depth=5, block=None, dropout=0.1):
        super().__init__()
        make = block or (lambda: Block(WIDTH, 2, 4 * WIDTH, dropout))
        self.into = nn.Linear(WIDTH, WIDTH)
        self.h = nn.ModuleList(make() for _ in range(depth))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.into(x)
        for block in self.h:
            x = block(x)
        return self.out(x)


def batch(rows=8, length=64):
    return torch.randn(rows, length, WIDTH)


def loss_of(model, x):
    return F.mse_loss(model(x).float(), x.roll(1, 0))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(model, steps, record, loss=loss_of, each=None, optimizer=None):
    """The plain loop; each(step), if given, runs before every step."""
    optimizer = optimizer or sgd(model)
    x = batch()
    for step in range(steps):
        if each is not None:
            each(step)
        optimizer.zero_grad()
        value = loss(model, x)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def run(job, steps, out):
    """One job from the start: seeds, records, writes a file of digests."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    seed()
    record = Record()
    job(steps, record)
    record.random_streams()
    print(f"{job.__name__}: {len(record.values)} values")
    if out:
        write(out, record, [])


def run_all(jobs, names, steps, folder):
    """Each job in a child of its own, forked before anything was computed.

    A child goes on to the end of the script and of the interpreter; folder gets
    NAME.json, NAME.stdout, NAME.stderr, and NAME.status with the process id; for
    a rank with its number behind NAME.
    """
    rank = os.environ.get("RANK")
    for name in names:
        sys.stdout.flush()
        label = f"{folder}/{name}.{rank}" if rank else f"{folder}/{name}"
        child = os.fork()
        if child == 0:
            for stream, number in (("stdout", 1), ("stderr", 2)):
                file = os.open(f"{label}.{stream}",
                               os.O_WRONLY | os.O_CREAT, 0o644)
                os.dup2(file, number)
            run(jobs[name], steps, f"{label}.json")
            return
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        pathlib.Path(f"{label}.status").write_text(f"{status} {child}")


def main(jobs, description):
    """Run the jobs that the command line names."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=sorted(jobs))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--out", metavar="FILE")
    parser.add_argument("--folder", metavar="FOLDER")
    options = parser.parse_args()
    if options.folder:
        run_all(jobs, options.names, options.steps, options.folder)
    else:
        run(jobs[options.names[0]], options.steps, options.out)


def table(*functions):
    """The jobs by their names."""
    return {function.__name__: function for function in functions}
