"""Blocks that torch.cuda.nvtx names, and bytes of the device by range."""

from __future__ import annotations

import pytest

from test_agent import MODEL, libraries, report_of

__all__ = ["libraries"]

RANGED = MODEL + """
from torch.cuda import nvtx
def head(x):
    return x * 2
class Model(Model):
    def forward(self, x):
        for i, block in enumerate(self.blocks):
            with nvtx.range(f"layer {i}"):
                x = block(x)
        with nvtx.range("no call"):
            return head(x)
"""

LAYERS = [f"layer {i}" for i in range(10)]

EMIT = """
with torch.autograd.profiler.emit_nvtx(record_shapes=True):
    result = train(8)
"""


def train(phantom, libraries, out, budget, code="result = train(8)"):
    job = phantom.run(RANGED + code, before=libraries, CKPT_OUT=str(out),
                      CKPT_BUDGET=str(budget), CKPT_BLOCKS="nvtx")
    return job.result, report_of(out)


@pytest.fixture(scope="module")
def extremes(phantom, libraries, tmp_path_factory):
    """The lowest peak and the plain one, as taken from the device."""
    out = tmp_path_factory.mktemp("extremes")
    return tuple(train(phantom, libraries, out / b, b)[1]["peak_bytes"]["last"]
                 for b in ("min", "max"))


@pytest.mark.parametrize("code", ["result = train(8)", EMIT], ids=["", "emit_nvtx"])
def test_ranges_name_the_blocks_that_hold_the_budget(phantom, libraries, extremes,
                                                     tmp_path, code):
    budget = sum(extremes) // 2
    peaks, report = train(phantom, libraries, tmp_path, budget, code)
    assert peaks[-1][1] <= budget
    assert [b["name"] for b in report["blocks"]] == LAYERS
    assert any(b["decision"] == "recompute" for b in report["blocks"])
    # Of all the ranges around operators none encloses a module call.
    assert [r["name"] for r in report["ranges"]] == LAYERS
    assert [r["block"] for r in report["ranges"]] == LAYERS


def test_bytes_on_the_device_belong_to_the_open_range(phantom, libraries, tmp_path):
    _, report = train(phantom, libraries, tmp_path, "max")
    saved = {b["name"]: b["saved_bytes"] for b in report["blocks"]}
    for entry in report["ranges"][:-1]:     # the last one's backward has begun then
        assert entry["peak_bytes"] >= saved[entry["name"]] > 10_000_000
        assert entry["outside_bytes"] == 0
    assert sum(r["peak_bytes"] for r in report["ranges"]) < report["peak_bytes"]["last"]


def test_what_others_take_belongs_to_the_open_range_as_well(phantom, libraries,
                                                            tmp_path):
    code = """
def head(x, taken=[]):
    if not taken:
        taken.append(ctypes.c_void_p())
        nvtx.range_push("layer 3")
        assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(taken[0]),
                                            ctypes.c_size_t(5 << 20)) == 0
        nvtx.range_pop()
    return x
train(3)
"""
    _, report = train(phantom, libraries, tmp_path, "max", code)
    assert {r["name"]: r["outside_bytes"] for r in report["ranges"]} == {
        name: (5 << 20) * (name == "layer 3") for name in LAYERS}
