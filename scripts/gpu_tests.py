"""The CUDA tests of scripts/gpu-check: each a job whose asserts hold.

Nothing is needed but torch. Those that look at values or times are for a GPU alone.
"""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
import textwrap
from typing import Callable

import job
from cuda_cells import EXPANDABLE

START = """
import ctypes, sys, torch
from torch import nn
sys.path.insert(0, %r)
agent = ctypes.CDLL(None)
for name in ("live", "peak", "cached", "outside", "taken", "taken_peak"):
    getattr(agent, "ckptagent_" + name).restype = ctypes.c_uint64

def books():
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    return ((agent.ckptagent_live(1), agent.ckptagent_cached(0)),
            (stats["allocated_bytes.all.current"],
             stats["reserved_bytes.all.current"]))

class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
    def forward(self, x):
        y = self.down(torch.relu(self.up(self.norm(x))))
        return x + torch.dropout(y, 0.1, True)

class Model(nn.Module):
    def __init__(self, width=512, layers=8):
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(width, width * (1 + i %% 4)) for i in range(layers))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def train(steps=6, meanwhile=lambda step: None):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    with torch.device("cuda"):
        model, x = Model(), torch.randn(16, 512, 512)
    optimizer = torch.optim.AdamW(model.parameters())
    seen = []
    for step in range(steps):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        meanwhile(step)
        loss.backward()
        seen += [loss.item(), *(p.grad.double().sum().item()
                                for p in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
    return seen, torch.cuda.get_rng_state().tolist()
""" % str(job.ROOT / "python-sitecustomize")

BOOKS = """
held = [torch.zeros(n * 1000 + 1, device="cuda") for n in range(1, 200)]
ours, theirs = books()
assert ours == theirs, (ours, theirs)
del held[::2]
held += [torch.ones(n * 777, device="cuda") for n in range(1, 100)]
ours, theirs = books()
assert ours == theirs, (ours, theirs)
del held
ours, theirs = books()
assert ours == theirs, (ours, theirs)
"""

EMPTY = """
x = torch.zeros(50_000_000, device="cuda")
full, _ = books()
del x
torch.cuda.empty_cache()
torch.zeros(1, device="cuda")
ours, theirs = books()
assert ours == theirs and ours[1] < full[1], (ours, theirs, full)
"""

ASYNC = """
held = [torch.zeros(n * 1000 + 1, device="cuda") for n in range(1, 200)]
(live, _), (theirs, _) = books()
assert live == theirs, (live, theirs)
"""

OUTSIDE = """
torch.zeros(1, device="cuda")
ptr, before = ctypes.c_void_p(), agent.ckptagent_outside(0)
runtime = ctypes.CDLL(None)
assert runtime.cudaMalloc(ctypes.byref(ptr), ctypes.c_size_t(3 << 20)) == 0
assert agent.ckptagent_outside(0) == before + (3 << 20)
assert runtime.cudaFree(ptr) == 0
assert agent.ckptagent_outside(0) == before
"""

SPILL = """
from ckptshim.host_spill import HostSpill
pattern = torch.arange(50_000, dtype=torch.int32)
there = pattern.cuda()
view = there[100:40_100].view(200, 200).t()
spill = HostSpill(1 << 20)
storages, moved = {}, spill.write([there, view])
back = [m.restore(storages) for m in moved]
del there
assert (back[0].cpu() == pattern).all() and list(back[1].stride()) == [1, 200]
assert spill.write([torch.zeros(1 << 20, device="cuda")]) is None
"""

CAPTURE = """
model, x = Model().cuda(), torch.zeros(2, 512, 512, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        model(x).mean().backward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).mean().backward()
graph.replay()
torch.cuda.synchronize()
"""

DIGESTS = """
from ckptshim.sums import OnDevice
values = [torch.randn(1000, 33, device="cuda", dtype=kind) for kind in
          (torch.float32, torch.bfloat16, torch.float16)]
values += [values[0].t(), values[0][::2]]
for place in (0, 1, 2):
    before = OnDevice(values)
    assert not before.differs(OnDevice(values), [*range(5)]).any()
    bits = values[place].view(torch.int32 if place == 0 else torch.int16)
    bits[999, 32] ^= 1
    assert before.differs(OnDevice(values), [*range(5)])[place].item()
"""

TIMES = """
from ckptshim.clock import Clock
class Call: pass
clock, call = Clock(), Call()
clock.cuda = clock.profiling = True
x = torch.randn(4096, 4096, device="cuda")
begin = clock.start()
for _ in range(20):
    x = x @ x
clock.stop(begin, call, "ms")
clock.read()
assert 0.1 < call.ms < 10_000, call.ms
"""

# The parameters of a block change after its forward, unseen by version counters.
MISMATCH = """
def change(step):
    if step == 4:
        with torch.no_grad():
            held[0].blocks[0].up.weight.data.mul_(1.5)
held = []
kept = Model.__init__
def init(self, *words):
    kept(self, *words)
    held.append(self)
Model.__init__ = init
try:
    train(6, change)
except RuntimeError as error:
    assert "the recompute differs" in str(error), error
else:
    raise AssertionError("nothing was said")
"""

PRINT = """
print("BITS", train())
"""

# A Python that ends right after a backward on a device aborts now and then, in torch's
# own code and without the agent as well.
END = """
import time
time.sleep(0.3)
"""


def _child(place, code, timeout, budget=None, **settings):
    """Runs it; (what it printed, "" or why it failed)."""
    if budget is not None:
        settings["CKPT_BUDGET"] = budget
    done = subprocess.run(
        [place.python, "-c", START + textwrap.dedent(code) + END], capture_output=True,
        text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False,
        env=place.environment(**settings))
    why = "" if not done.returncode else (
        f"status {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout, why


def _holds(code, **settings) -> Callable[..., str]:
    return lambda place, timeout: _child(place, code, timeout, **settings)[1]


def _recomputes_exactly(place, timeout) -> str:
    """Losses, gradients and the random stream of a job under the lowest budget."""
    with tempfile.TemporaryDirectory() as out:
        plain, why = _child(place, PRINT, timeout)
        least, whynot = _child(place, PRINT, timeout, budget="min", CKPT_OUT=out)
    if why or whynot:
        return why or whynot
    return "" if plain == least and "BITS" in plain else "other bits than the plain job"


@dataclasses.dataclass
class Case:
    """run(place, timeout) says why it failed, or ""; real: it needs a GPU."""

    name: str
    run: Callable[..., str]
    real: bool = False


CASES = [
    Case("the agent's totals are torch's", _holds(BOOKS)),
    Case("the same with expandable segments",
         _holds(BOOKS, PYTORCH_CUDA_ALLOC_CONF=EXPANDABLE)),
    Case("with cudaMallocAsync its calls are the tensors",
         _holds(ASYNC, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")),
    Case("freed segments leave the totals", _holds(EMPTY)),
    Case("the same with expandable segments",
         _holds(EMPTY, PYTORCH_CUDA_ALLOC_CONF=EXPANDABLE)),
    Case("what others take is outside", _holds(OUTSIDE)),
    Case("originals come back from the host as they were", _holds(SPILL)),
    Case("a capture is left alone", _holds(CAPTURE, budget="min")),
    Case("a digest on the device tells one bit", _holds(DIGESTS), real=True),
    Case("the device's events tell times", _holds(TIMES), real=True),
    Case("a recompute with other weights is caught", _holds(MISMATCH, budget="min"),
         real=True),
    Case("losses, gradients and random streams are the plain job's bits",
         _recomputes_exactly, real=True),
]
