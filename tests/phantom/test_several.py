"""A model on several devices: the budget holds on each of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from test_agent import MODEL, libraries, rehearse, report_of  # noqa: F401

TWO = {"CKPT_PHANTOM_COUNT": "2"}

SPLIT = MODEL + """
class Split(nn.Module):
    def __init__(self, layers=(6, 6)):
        super().__init__()
        self.first, self.second = Model(layers=layers[0]), Model(layers=layers[1])
        self.first.cuda(0), self.second.cuda(1)
    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).to("cuda:1"))
def peaks_of(devices=(0, 1)):
    stats = [torch.cuda.memory_stats(n) for n in devices]
    return [[s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"]] for s in stats]
def steps(count, model, x):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    peaks = []
    for _ in range(count):
        for device in (0, 1):
            torch.cuda.reset_peak_memory_stats(device)
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        peaks.append(peaks_of())
    return peaks
x = torch.zeros(16, 512, 512, device="cuda:0")
"""


def run(phantom, libraries, out, budget, code, **settings):  # noqa: F811
    job = phantom.run(SPLIT + code, before=libraries, CKPT_OUT=str(out),
                      CKPT_BUDGET=str(budget), **{**TWO, **settings})
    return job.result, report_of(out), job.stderr


def recomputed(report):
    return {b["name"] for b in report["blocks"] if b["decision"] == "recompute"}


def plans_of(out: Path):
    return json.loads((out / "plan.json").read_text())["plans"]


EVEN = "result = steps(9, Split(), x)\n"
UNEVEN = "result = steps(9, Split((8, 3)), x)\n"


@pytest.fixture(scope="module")
def extremes(phantom, libraries, tmp_path_factory):  # noqa: F811
    """What is taken from each device, with everything recomputed and with nothing."""
    out = tmp_path_factory.mktemp("extremes")
    found = {}
    for name, code in (("even", EVEN), ("uneven", UNEVEN)):
        low = run(phantom, libraries, out / name / "min", "min", code)[0][-1]
        top = run(phantom, libraries, out / name / "max", "max", code)[0][-1]
        found[name] = [taken for _, taken in low], [taken for _, taken in top]
    return found


def test_the_budget_is_held_on_both(phantom, libraries, extremes, tmp_path):  # noqa: F811
    low, top = extremes["even"]
    budget = (max(low) + min(top)) // 2
    peaks, report, stderr = run(phantom, libraries, tmp_path, budget, EVEN)
    assert max(taken for _, taken in peaks[-1]) <= budget, stderr
    names = recomputed(report)
    assert {name.partition(".")[0] for name in names} == {"first", "second"}
    assert len(names) < 12
    plans = plans_of(tmp_path)
    assert [plan["device"] for plan in plans] == ["cuda:0", "cuda:1"]
    for plan, (allocated, _) in zip(plans, peaks[-1]):
        assert plan["predicted_bytes"] == allocated
    devices = report["devices"]
    assert [d["device"] for d in devices] == ["cuda:0", "cuda:1"]
    assert [d["peak_bytes"]["last"] for d in devices] == [t for _, t in peaks[-1]]
    assert report["peak_bytes"]["last"] == max(taken for _, taken in peaks[-1])
