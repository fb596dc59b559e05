"""CKPT_TIMING=cupti on the phantom, whose CUPTI says that a kernel takes 1 µs and a
copy 0.5 µs, beside torch's own profiler.
"""

from __future__ import annotations

import json

import pytest

from test_agent import AGENT, MODEL

JOB = MODEL + """
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

def profiler():
    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

def seen(trace):
    # How many kernels there were, and what one layer norm took on the device.
    kernels = [e for e in trace.events() if e.device_type == DeviceType.CUDA
               and e.name == "phantom"]
    (norm,) = [e for e in trace.key_averages() if e.key == "aten::native_layer_norm"]
    return [len(kernels), norm.device_time_total / norm.count]

class Job:
    def __init__(self):
        torch.manual_seed(3)
        self.model = Model(256, 6).cuda()
        self.x = torch.ones(8, 256, 256, device="cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def step(self, before_backward=lambda: None):
        y = self.model(self.x).mean()
        before_backward()
        y.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def bits(self):
        return [p.view(torch.int32).cpu().sum().item() for p in self.model.parameters()]

job = Job()
"""


@pytest.fixture
def run(phantom, tmp_path):
    """The result of a job, the tape's calls and the agent's lines (none plain)."""
    def run(code, budget="min", **settings):
        done = phantom.run(JOB + code, before=[AGENT] if budget else [],
                           CKPT_BUDGET=budget, CKPT_OUT=str(tmp_path) if budget else "",
                           **settings)
        result = done.result
        assert "unknown buffer" not in done.stderr
        lines = [line for line in done.stderr.splitlines()
                 if line.startswith("ckptagent: CKPT_TIMING")]
        files = tmp_path.glob("profile.json")
        calls = [call for file in files
                 for call in json.loads(file.read_text())["kinds"][0]["calls"]]
        return result, calls, lines
    return run


def test_a_block_s_time_is_that_of_its_kernels(run):
    code = "for _ in range(12):\n    job.step()\nresult = job.bits()"
    result, calls, lines = run(code, CKPT_TIMING="cupti")
    assert not lines and len(calls) == 6
    for call in calls:      # kernels and copies, some of each, and nothing else
        halves = [2000 * call[what] for what in ("forward_ms", "recompute_ms")]
        assert all(abs(h - round(h)) < 1e-6 and 6 <= h < 100 for h in halves), call
    plain, _, _ = run(code, budget="")
    assert result == plain
    _, counted, _ = run(code)
    assert counted[3]["forward_ms"] != calls[3]["forward_ms"]


def test_the_job_s_profiler_comes_afterwards(run):
    code = """
for _ in range(12):
    job.step()
with profiler() as trace:
    job.step()
result = seen(trace)
"""
    (kernels, took), _, lines = run(code, CKPT_TIMING="cupti")
    (plain_kernels, plain_took), _, _ = run(code, budget="")
    assert not lines
    assert kernels >= plain_kernels > 50
    assert took == pytest.approx(plain_took, rel=0.01)


def test_the_job_s_profiler_was_there_before(run):
    code = """
with profiler() as trace:
    job.step()
for _ in range(11):
    job.step()
result = seen(trace)
"""
    (kernels, took), calls, lines = run(code, CKPT_TIMING="cupti")
    (plain_kernels, plain_took), _, _ = run(code, budget="")
    assert lines == ["ckptagent: CKPT_TIMING=cupti: a profiler has CUPTI (error 39); "
                     "times come from CUDA events"]
    assert kernels >= plain_kernels > 50
    assert took == pytest.approx(plain_took, rel=0.01)
    assert all(call["forward_ms"] > 0 for call in calls)


@pytest.mark.parametrize("where", ["between", "inside"])
def test_the_job_s_profiler_begins_while_the_agent_records(run, where):
    code = f"""
trace = profiler()
if {where == "inside"}:
    handle = job.model.blocks[3].norm.register_forward_hook(
        lambda *args: (handle.remove(), trace.start()) and None)
    job.step()
else:
    job.step(before_backward=trace.start)
for _ in range(2):
    job.step()
trace.stop()
for _ in range(3):
    job.step()
result = seen(trace)
"""
    (kernels, took), _, lines = run(code, CKPT_TIMING="cupti")
    (plain_kernels, plain_took), _, _ = run(code, budget="")
    assert "ckptagent: CKPT_TIMING=cupti: a profiler of the job began; " \
           "times come from CUDA events" in lines
    assert kernels >= plain_kernels > 100
    assert took == pytest.approx(plain_took, rel=0.01)
