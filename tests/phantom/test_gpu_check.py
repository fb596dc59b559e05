"""scripts/gpu-check, tried where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

TIMEOUT = 600  # seconds


def check(tmp_path, *words, **settings):
    return subprocess.run(
        [ROOT / "scripts" / "gpu-check", "--python", sys.executable, "--out",
         tmp_path / "out", *words], capture_output=True, text=True, check=False,
        timeout=TIMEOUT, env={**os.environ, "CKPT_BUILD": str(BUILD), **settings})


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def test_it_says_what_was_found(transformers, tmp_path):
    done = check(tmp_path, "--phantom", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith((tmp_path / "out" / "gpu-check.txt").read_text())
    assert "no time is real" in done.stdout and "not run: 0" in done.stdout
    found = json.loads((tmp_path / "out" / "gpu-check.json").read_text())
    assert found["format"] == "ckptagent.gpu-check" and not found["real"]
    assert all(figure["met"] for figure in found["figures"])
    assert {test["passed"] for test in found["tests"]} == {True, None}
    (model,) = found["models"]
    (cell,) = model["cells"]
    assert cell["budget"] >= cell["taken"][-1] > 0 and cell["recomputed"] > 0
    assert model["checkpoint"]["steps"][-1]["allocated"] < cell["allocated"]


def test_what_there_is_no_time_for_is_named(transformers, tmp_path):
    done = check(tmp_path, "--phantom", "--quick", "--minutes", "0.1")
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads((tmp_path / "out" / "gpu-check.json").read_text())
    left_out = [entry["what"] for entry in found["not_run"]]
    assert {"gpt2, plain", "gpt2, budget at 50%"} <= set(left_out)
    assert f"not run: {len(left_out)}" in done.stdout
    assert "no cell was run" in done.stdout


def test_without_a_gpu_it_says_so(transformers, tmp_path):
    done = check(tmp_path)
    assert done.returncode == 2 and "torch finds no CUDA device" in done.stderr
