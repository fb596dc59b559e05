"""Several processes with NCCL on one machine."""

import socket

import pytest

from conftest import end


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


START = """
import os
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
"""

DDP = START + """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).cuda(),
            device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(2, 64, device="cuda")).sum().backward()
    optimizer.step()
gathered = [torch.zeros(3, device="cuda") for _ in range(2)]
dist.all_gather(gathered, torch.full((3,), float(rank)).cuda())
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
dist.barrier()
result = [torch.cuda.current_device(), dist.get_world_size(),
          [g.cpu().tolist() for g in gathered], objects]
dist.destroy_process_group()
"""

FSDP = START + """
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False)
                              for _ in range(4)]).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)
torch.cuda.synchronize()
result = [torch.cuda.memory_allocated()]
for _ in range(2):
    model(torch.ones(2, 512, device="cuda")).sum().backward()
result.append(model[0].weight.grad.to_local().numel())
dist.destroy_process_group()
"""


def two_ranks(phantom, code):
    port = free_port()
    jobs = [phantom.start(code, CKPT_PHANTOM_COUNT="2", CKPT_PHANTOM_STRICT="1",
                          RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            for rank in range(2)]
    return [end(job).result for job in jobs]


def test_two_ranks_train_and_each_gets_back_what_it_sent(phantom):
    assert two_ranks(phantom, DDP) == [
        [rank, 2, [[float(rank)] * 3] * 2, [{"rank": rank}] * 2]
        for rank in range(2)]


def test_a_model_is_sharded_over_two_ranks(phantom):
    results = two_ranks(phantom, FSDP)
    half = 512 * 512 // 2
    assert [shard for _, shard in results] == [half, half]
    assert all(held < 4 * 512 * 512 * 4 for held, _ in results)


@pytest.mark.parametrize("count", ["1", "4"])
def test_a_world_of_one_needs_no_peer(phantom, count):
    assert phantom.run(START + """
dist.all_reduce(torch.ones(3, device="cuda"))
result = dist.get_world_size()
dist.destroy_process_group()
""", RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(),
        CKPT_PHANTOM_COUNT=count).result == 1
