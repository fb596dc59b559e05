"""Jobs of two processes under torchrun: DDP, FSDP, collectives of their own."""

import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from common import WIDTH, Tower, batch, loss_of, main, sgd, table
from torch.nn.parallel import DistributedDataParallel as DDP

from models import Block

FOLDER = sys.argv[-1]       # of --folder

class Branches(Tower):
    """Only one of two blocks is used in a forward, in turns."""

    turn = 0

    def forward(self, x):
        x = self.into(x)
        for place, block in enumerate(self.h):
            if place != 2 + self.turn % 2:
                x = block(x)
        self.turn += 1
        return self.out(x)


class Twice(Tower):
    """The second block is called three times."""

    def forward(self, x):
        x = self.into(x)
        for place in (0, 1, 2, 1, 3, 1):
            x = self.h[place](x)
        return self.out(x)


class Reduces(nn.Module):
    """A block that sums over the ranks in its forward."""

    def __init__(self):
        super().__init__()
        self.block = Block(WIDTH, 2, 4 * WIDTH)

    def forward(self, x):
        y = self.block(x)
        mean = y.detach().mean(0)
        dist.all_reduce(mean)
        return y - 0.1 * torch.tanh(y) * mean


class Unequal(Tower):
    """Rank 1 works on a longer batch."""


@contextlib.contextmanager
def world():
    """The ranks of torchrun; each job meets at a file of its own."""
    meeting = f"file://{FOLDER}/{sys._getframe(2).f_code.co_name}.meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    try:
        yield dist.get_rank()
    finally:
        dist.destroy_process_group()


def count_collectives():
    """How many collectives the default group has issued."""
    return dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()


def loop(model, steps, record, rank, x=None, optimizer=None, sync=None):
    torch.manual_seed(100 + rank)
    x = batch() if x is None else x
    optimizer = optimizer or sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        with sync(step) if sync else contextlib.nullcontext():
            value = loss_of(model, x)
            value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        if sync is None or step % 3 == 2:
            optimizer.step()
    record.weights(model)
    record.values["collectives"] = count_collectives()
    settle()


def settle():
    """Let the process group's threads let go of their last tensors.

    They need the interpreter's lock for it, which a model that is freed holds
    while it waits for those threads.
    """
    time.sleep(0.3)


def plain(steps, record):
    with world() as rank:
        loop(DDP(Tower()), steps, record, rank)


def unused(steps, record):
    with world() as rank:
        loop(DDP(Branches(), find_unused_parameters=True), steps, record, rank)


def static(steps, record):
    with world() as rank:
        loop(DDP(Twice(4), static_graph=True), steps, record, rank)


def twice(steps, record):
    with world() as rank:
        loop(DDP(Twice(4), find_unused_parameters=True), steps, record, rank)


def views(steps, record):
    """Gradients are views of the buckets, buckets are small."""
    with world() as rank:
        loop(DDP(Tower(), gradient_as_bucket_view=True, bucket_cap_mb=0.2),
             steps, record, rank)


def no_sync(steps, record):
    """Three micro-batches a step, the first two without communication."""
    with world() as rank:
        model, x = DDP(Tower()), None
        torch.manual_seed(100 + rank)
        x, optimizer = batch(9), sgd(model)
        for step in range(steps):
            optimizer.zero_grad()
            for part in range(3):
                with model.no_sync() if part < 2 else contextlib.nullcontext():
                    rows = x[3 * part:3 * part + 3]
                    value = loss_of(model, rows) / 3
                    value.backward()
                record.number(f"{step} loss {part}", value.item())
            record.gradients(step, model)
            optimizer.step()
        record.weights(model)
        record.values["collectives"] = count_collectives()
        settle()


def buffers(steps, record):
    """BatchNorm inside blocks, broadcast by DDP, and SyncBatchNorm's absence."""
    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.norm = nn.BatchNorm1d(4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            y = self.norm(self.up(x).transpose(1, 2)).transpose(1, 2)
            return x + self.down(F.gelu(y))
    with world() as rank:
        loop(DDP(Tower(4, Norms)), steps, record, rank)


def communicating(steps, record):
    """Two of the blocks communicate in their forward."""
    with world() as rank:
        model = Tower(5)
        for place in (1, 3):
            model.h[place] = Reduces()
        loop(DDP(model), steps, record, rank)


def unequal(steps, record):
    """The ranks have batches of other sizes, so that their plans differ."""
    with world() as rank:
        loop(DDP(Tower()), steps, record, rank, batch(8 if rank == 0 else 12))


def in_backward(steps, record):
    """Each parameter is stepped and its gradient freed as soon as it is there."""
    model, x = Tower(dropout=0.0), batch()
    optimizers = {p: torch.optim.SGD([p], lr=0.05, momentum=0.9)
                  for p in model.parameters()}

    def step_now(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    for step in range(steps):
        value = loss_of(model, x)
        value.backward()
        record.number(f"{step} loss", value.item())
    record.weights(model)


def zero(steps, record):
    """Optimizer state is spread over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    with world() as rank:
        model = DDP(Tower())
        loop(model, steps, record, rank, optimizer=ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, lr=1e-3))


def sharded(steps, record):
    """FSDP2: each block and the whole model are sharded."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    with world() as rank:
        model = Tower(dropout=0.0)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        torch.manual_seed(100 + rank)
        x, optimizer = batch(), sgd(model)
        for step in range(steps):
            optimizer.zero_grad()
            value = loss_of(model, x)
            value.backward()
            record.number(f"{step} loss", value.item())
            for name, p in model.named_parameters():
                record.tensor(f"{step} gradient {name}", p.grad.to_local())
            optimizer.step()
        record.values["collectives"] = count_collectives()
        settle()


def sharded_inside(steps, record):
    """FSDP2 with the parts of blocks sharded, kept after forward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    with world() as rank:
        model = Tower(4, dropout=0.0)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.h:
            fully_shard(block.up, mesh=mesh)
            fully_shard(block.down, mesh=mesh, reshard_after_forward=False)
        fully_shard(model, mesh=mesh)
        torch.manual_seed(100 + rank)
        x, optimizer = batch(), sgd(model)
        for step in range(steps):
            optimizer.zero_grad()
            value = loss_of(model, x)
            value.backward()
            record.number(f"{step} loss", value.item())
            optimizer.step()
            for name, p in model.named_parameters():
                record.tensor(f"{step} weight {name}", p.to_local())
        record.values["collectives"] = count_collectives()
        settle()


def wrapped(steps, record):
    """FSDP1: each block is wrapped."""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    with world() as rank:
        model = FSDP(Tower(dropout=0.0), device_id=torch.device("cpu"),
                     auto_wrap_policy=ModuleWrapPolicy({Block}),
                     use_orig_params=True)
        torch.manual_seed(100 + rank)
        x, optimizer = batch(), sgd(model)
        for step in range(steps):
            optimizer.zero_grad()
            value = loss_of(model, x)
            value.backward()
            record.number(f"{step} loss", value.item())
            for name, p in model.named_parameters():
                record.tensor(f"{step} gradient {name}", p.grad)
            optimizer.step()
        record.weights(model)
        record.values["collectives"] = count_collectives()
        settle()


def launcher(steps, record):
    """A rank that does not train."""
    with world() as rank:
        model = DDP(Tower())
        record.number("rank", rank)
        with torch.no_grad():
            record.tensor("out", model(batch()))


JOBS = table(plain, unused, static, twice, views, no_sync, buffers, communicating,
             unequal, zero, sharded, sharded_inside, wrapped,
             launcher, in_backward)

if __name__ == "__main__":
    main(JOBS, __doc__)
