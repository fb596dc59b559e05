"""A model on several devices: the budget holds on each of them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from conftest import TIMEOUT, environment
from test_agent import AGENT, COMMAND, MODEL, rehearse, report_of

TWO = {"CKPT_PHANTOM_COUNT": "2"}

SPLIT = """
class Split(nn.Module):
    def __init__(self, layers=(6, 6), devices=(0, 1)):
        super().__init__()
        self.first, self.second = (
            Model(layers=n).cuda(d) for n, d in zip(layers, devices))
        self.devices = devices
    def forward(self, x):
        x = self.first(x.to(f"cuda:{self.devices[0]}"))
        return self.second(x.to(f"cuda:{self.devices[1]}"))
def steps(count, model, x, parameters=None):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(parameters or model.parameters(), 0.1)
    peaks = []
    for _ in range(count):
        for device in (0, 1):
            torch.cuda.reset_peak_memory_stats(device)
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        stats = [torch.cuda.memory_stats(device) for device in (0, 1)]
        peaks.append([[s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"]]
                      for s in stats])
    return peaks
def streams():
    return [torch.cuda.get_rng_state(n).tolist() for n in (0, 1)]
x = torch.zeros(16, 512, 512, device="cuda:0")
"""
EVEN = "result = steps(9, Split(), x)\n"
UNEVEN = "result = steps(9, Split((8, 3)), x)\n"


def run(phantom, out, budget, code, **settings):
    job = phantom.run(MODEL + SPLIT + code, before=[AGENT], CKPT_OUT=str(out),
                      CKPT_BUDGET=str(budget), **{**TWO, **settings})
    return job.result, report_of(out), job.stderr


def recomputed(report):
    return {b["name"] for b in report["blocks"] if b["decision"] == "recompute"}


def parts(report):
    """The submodules of the root that recomputed blocks are in."""
    return {name.partition(".")[0] for name in recomputed(report)}


def plans_of(out: Path):
    return json.loads((out / "plan.json").read_text())["plans"]


def taken(peaks):
    return [reserved for _, reserved in peaks]


@pytest.fixture(scope="module")
def extremes(phantom, tmp_path_factory):
    """What is taken from each device, with everything recomputed and with nothing."""
    out = tmp_path_factory.mktemp("extremes")
    return {code: [taken(run(phantom, out / f"{i}{budget}", budget, code)[0][-1])
                   for budget in ("min", "max")]
            for i, code in enumerate((EVEN, UNEVEN))}


def predicted_right(out, peaks):
    """Each device's tensors were as predicted, but for digests: those on the tape of
    blocks that are kept now are not there.
    """
    plans = plans_of(out)
    assert [plan["device"] for plan in plans] == ["cuda:0", "cuda:1"]
    for plan, (allocated, _) in zip(plans, peaks):
        assert 0 <= plan["predicted_bytes"] - allocated <= 0.0001 * allocated


def test_the_budget_is_held_on_both(phantom, extremes, tmp_path):
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    peaks, report, stderr = run(phantom, tmp_path, budget, EVEN)
    assert all(max(taken(now)) <= budget for now in peaks[-2:]), stderr
    assert parts(report) == {"first", "second"} and len(recomputed(report)) < 12
    predicted_right(tmp_path, peaks[-1])
    devices = report["devices"]
    assert [d["device"] for d in devices] == ["cuda:0", "cuda:1"]
    assert [d["peak_bytes"]["last"] for d in devices] == taken(peaks[-1])
    assert report["peak_bytes"]["last"] == max(taken(peaks[-1]))
    assert all(0 < d["floor_bytes"] <= d["peak_bytes"]["predicted"] for d in devices)
    assert re.search(r"predicted peak .* on cuda:0, .* on cuda:1, ", stderr)


def test_only_blocks_of_the_short_device_are_recomputed(phantom, extremes, tmp_path):
    low, top = extremes[UNEVEN]
    budget = (low[0] + top[0]) // 2
    assert top[1] < budget
    peaks, report, stderr = run(phantom, tmp_path, budget, UNEVEN)
    assert max(taken(peaks[-1])) <= budget and taken(peaks[-1])[1] == top[1], stderr
    assert parts(report) == {"first"}
    assert report["device"] == "cuda:0"


def test_a_device_on_which_the_budget_cannot_be_held_is_named(phantom, tmp_path):
    code = UNEVEN.replace("(8, 3)", "(8, 1)")
    _, report, _ = run(phantom, tmp_path / "min", "min", code)
    budget = report["devices"][0]["floor_bytes"] - 1
    peaks, report, stderr = run(phantom, tmp_path / "out", budget, code)
    (said,) = [line for line in stderr.splitlines() if "cannot be met" in line]
    assert "cannot be met on cuda:0: the lowest peak is" in said
    assert report["feasible"] is False
    assert [plan["feasible"] for plan in plans_of(tmp_path / "out")] == [False, True]
    assert taken(peaks[-1])[1] <= budget and parts(report) == {"first"}


def test_without_a_shortage_nothing_is_recomputed(phantom, extremes, tmp_path):
    budget = 2 * max(extremes[EVEN][1])
    _, report, _ = run(phantom, tmp_path, budget, "result = steps(4, Split(), x)")
    assert sum(b["recomputes"] for b in report["blocks"]) == 0


WITHIN = """
class Moving(Block):                    # takes what it gets to its own device
    def forward(self, x):
        return super().forward(x.to(self.norm.weight.device))
class Both(nn.Module):                  # computes on both
    def __init__(self):
        super().__init__()
        self.here, self.there = Block(512, 1024).cuda(0), Block(512, 1024).cuda(1)
    def forward(self, x):
        return self.there(self.here(x.to("cuda:0")).to("cuda:1"))
class Mapped(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.layers = nn.ModuleList(
            [Moving(512, 1024).cuda(i // 4) for i in range(8)]
            + [Both() for _ in range(4 * both)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_blocks_that_move_what_they_get(phantom, tmp_path, both, share):
    code = WITHIN + f"result = [steps(9, Mapped({both}), x), streams()]\n"
    plain = phantom.run(MODEL + SPLIT + code, **TWO).result
    low = taken(run(phantom, tmp_path / "min", "min", code)[0][0][-1])
    top = taken(plain[0][-1])
    budget = int(max(low) + share * (max(top) - max(low)))
    (peaks, now), report, stderr = run(phantom, tmp_path / "out", budget, code)
    assert now == plain[1] and all(map(any, now))
    assert 0 < len(recomputed(report)) < len(report["blocks"])
    assert max(taken(peaks[-1])) <= budget, stderr
    for plan, (allocated, _) in zip(plans_of(tmp_path / "out"), peaks[-1]):
        # A dropped block holds what it got, which a kept one moves and lets go of.
        assert 0 <= plan["predicted_bytes"] - allocated <= 0.2 * allocated


def test_inputs_may_be_on_the_cpu(phantom, extremes, tmp_path):
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    peaks, report, _ = run(phantom, tmp_path, budget, EVEN.replace("x)", "x.cpu())"))
    assert max(taken(peaks[-1])) <= budget and parts(report) == {"first", "second"}


BY_HAND = """
model = Split()
def by_hand(x):
    return model.second(model.first(x).to("cuda:1"))
"""


def test_a_model_that_is_called_by_parts(phantom, extremes, tmp_path):
    """The second device is met in the middle of the first iteration."""
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    code = BY_HAND + ("result = [steps(9, by_hand, x, [*model.parameters()]), "
                      "streams()]\n")
    plain = phantom.run(MODEL + SPLIT + code, **TWO).result
    (peaks, now), report, stderr = run(phantom, tmp_path, budget, code)
    assert now == plain[1] and all(map(any, now))
    assert max(taken(peaks[-1])) <= budget, stderr
    assert {b["root"] for b in report["blocks"]} == {"Model"}
    assert 0 < sum(b["decision"] == "recompute" for b in report["blocks"]) < 12
    predicted_right(tmp_path, peaks[-1])


def test_a_device_that_turns_up_late(phantom, extremes, tmp_path):
    """When a plan for the first one is in force."""
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    code = BY_HAND + """
parameters = [*model.parameters()]
result = steps(5, model.first, x, parameters) + steps(9, by_hand, x, parameters)
"""
    peaks, report, stderr = run(phantom, tmp_path, budget, code)
    assert all(max(taken(now)) <= budget for now in peaks[-2:]), stderr
    assert [e["detail"] for e in report["events"] if e["kind"] == "plan"][0].count(
        " on cuda:") == 0
    predicted_right(tmp_path, peaks[-1])


def test_kinds_on_different_devices(phantom, extremes, tmp_path):
    """One iteration works on both, the next on the second one alone."""
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    code = """
model, alone = Split(), Model(layers=4).cuda(1)
there = torch.zeros(16, 512, 512, device="cuda:1")
both = [*model.parameters(), *alone.parameters()]
result = []
for _ in range(8):
    result += steps(1, model, x, both) + steps(1, alone, there, both)
"""
    peaks, report, stderr = run(phantom, tmp_path, budget, code)
    assert all(max(taken(now)) <= budget for now in peaks[-2:]), stderr
    plans = plans_of(tmp_path)
    assert {(plan["root"], plan.get("device")) for plan in plans} >= {
        ("Split", "cuda:0"), ("Split", "cuda:1")}
    assert all(plan.get("device") is None for plan in plans if plan["root"] == "Model")
    assert {"first", "second"} <= parts(report)


def test_recomputes_run_on_the_streams_of_their_forward(phantom, tmp_path):
    """On both devices, whichever asks for what was saved."""
    code = """
class Strict(Block):
    def forward(self, x):
        for n in (0, 1):
            if torch.cuda.current_stream(n).stream_id != ids[n]:
                raise RuntimeError(f"another stream of {n}")
        return super().forward(x.to("cuda:0")).to("cuda:1")
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Strict(512, 1024).cuda(0) for _ in range(3))
        self.last = nn.Linear(512, 512).cuda(1)
    def forward(self, x):
        for layer in self.layers:
            with torch.cuda.stream(here), torch.cuda.stream(there):
                x = layer(x)
        return self.last(x)
here, there = torch.cuda.Stream(0), torch.cuda.Stream(1)
ids = [here.stream_id, there.stream_id]
steps(6, Model(), x)
result = ids
"""
    ids, report, stderr = run(phantom, tmp_path, "min", code)
    assert 0 not in ids                         # the default ones
    assert not [e for e in report["events"] if e["kind"] != "plan"]
    assert sum(b["recomputes"] for b in report["blocks"]
               if b["class"] == "Strict") >= 4 * 3, stderr


def test_a_backward_within_a_block_waits_for_nobody(phantom, tmp_path):
    """Two branches, and blocks that need both devices' threads to be recomputed."""
    code = """
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.here, self.there = Block(512, 1024).cuda(0), Block(512, 1024).cuda(1)
    def forward(self, x):
        z = x.detach().requires_grad_()
        y = self.there(self.here(z).to("cuda:1"))
        (g,) = torch.autograd.grad(y.mean(), z, create_graph=True)
        return self.there((self.here(x) + g).to("cuda:1")).to("cuda:0")
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.ModuleList(Both() for _ in range(4))
        self.right = nn.ModuleList(Both() for _ in range(4))
        self.other = nn.ModuleList(Block(512, 512).cuda(1) for _ in range(4))
    def forward(self, x):
        y, z = x, x.to("cuda:1")
        for left, right, other in zip(self.left, self.right, self.other):
            x, y, z = left(x), right(y), other(z)
        return x + y + z.to("cuda:0")
steps(6, Branches(), x[:4])
result = streams()
"""
    plain = phantom.run(MODEL + SPLIT + code, **TWO).result
    now, report, stderr = run(phantom, tmp_path, "min", code)
    assert now == plain
    assert any("a backward, on several devices" in e["detail"]
               for e in report["events"]), stderr
    assert "other.0" in recomputed(report)


def test_a_plan_file_is_for_the_devices_that_it_was_made_for(phantom, extremes,
                                                             tmp_path):
    low, top = extremes[EVEN]
    budget = (max(low) + min(top)) // 2
    before, first, _ = run(phantom, tmp_path / "first", budget, EVEN)
    plan = str(tmp_path / "first" / "plan.json")
    peaks, again, stderr = run(phantom, tmp_path / "again", "max", EVEN,
                               CKPT_PLAN=plan)
    assert recomputed(again) == recomputed(first) != set(), stderr
    assert [t for t, _ in peaks[-1]] == [t for t, _ in before[-1]]
    one = EVEN.replace("Split()", "Split(devices=(0, 0))")
    _, report, stderr = run(phantom, tmp_path / "one", "max", one, CKPT_PLAN=plan)
    assert not recomputed(report)
    (said,) = [line for line in stderr.splitlines() if "is not used" in line]
    assert "on cuda:0; the profile has no kind of any plan" in said


def test_the_command_shows_each_device(phantom, extremes, tmp_path):
    low, top = extremes[EVEN]
    run(phantom, tmp_path, (max(low) + min(top)) // 2, EVEN)
    shown = command("report", tmp_path)
    for name in ("cuda:0", "cuda:1"):
        assert re.search(rf"^  {name}( +[\d.]+ MiB){{5}}$", shown, re.M), shown
        assert re.search(rf"^peak of Split, .*, {name}: .* in the plan", shown, re.M)
    profile = tmp_path / "profile.json"
    assert "cuda:1, 12 calls" in command("plan", profile, "--budget", "min")
    command("validate", tmp_path / "plan.json", profile)


def command(*words) -> str:
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True,
                          check=False, timeout=TIMEOUT, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_model_on_two_devices_rehearses(tmp_path):
    job = SPLIT + "steps(100, Split((8, 3)), x)\nprint('over')\n"
    done = rehearse(tmp_path, "--count", "2", "--budget", "900M", job=job)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "900.00 MiB for this job, on each of cuda:0 and cuda:1" in done.stdout
    first, second = done.stdout.split("  cuda:1\n")
    assert first.count("does NOT fit") == 1 and "under the plan" in first
    assert second.count("it fits") == 2 and "over" not in second
    assert 0 < int(re.search(r"recomputed +(\d+) of 11 blocks", second)[1]) <= 8
    assert len(plans_of(tmp_path / "out")) == 2
