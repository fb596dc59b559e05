"""Communication inside a forward is seen, whoever issues it."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

from test_probe_effects import Block, look

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="no torch.distributed")


@pytest.fixture(name="group", scope="module")
def _group(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient


WAYS = {
    "all_reduce": lambda group, x: dist.all_reduce(x.clone()),
    "asynchronous": lambda group, x: dist.all_reduce(x.clone(), async_op=True).wait(),
    "broadcast": lambda group, x: dist.broadcast(x.clone(), 0),
    "barrier": lambda group, x: dist.barrier(),
    "a method of the group": lambda group, x: group.allreduce([x.clone()]).wait(),
    "functional": lambda group, x: functional.all_reduce(x, "sum", group).sum(),
    "an operator": lambda group, x: torch.ops._c10d_functional.wait_tensor(
        torch.ops._c10d_functional.all_reduce(x, "sum", group.group_name)),
    "an autograd function": lambda group, x: Mean.apply(x),
    "objects": lambda group, x: dist.all_gather_object([None], 3),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_collective_is_seen(way, group):
    block = Block(lambda self, x: [way(group, x)] and None)
    found = look(block, torch.randn(2, 3))
    assert found.verdict() == "collective", found.detail


@pytest.mark.parametrize("name", ["all_reduce", "barrier", "a method of the group",
                                  "functional", "objects"])
def test_tracing_tells_where_a_backend_does_not_count(name, group, monkeypatch):
    monkeypatch.setattr("ckptshim.probe._sequence_numbers", list)
    block = Block(lambda self, x: [WAYS[name](group, x)] and None)
    assert look(block, torch.randn(2, 3)).verdict() == "collective"


def test_sequence_numbers_tell_where_nothing_can_be_traced(group, monkeypatch):
    monkeypatch.setattr("ckptshim.tracer.Tracer.possible", lambda: False)
    block = Block(lambda self, x: dist.all_reduce(x.clone()) and None)
    assert look(block, torch.randn(2, 3)).verdict() == "collective"


def test_without_communication_a_block_is_clean(group):
    assert look(Block(), torch.randn(2, 3)).verdict() is None
    assert look(nn.Sequential(nn.Linear(3, 3)), torch.randn(2, 3)).verdict() is None
