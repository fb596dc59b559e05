"""Loops of libraries, with small models: the same numbers, the budget held."""

import importlib.util
import os

import pytest
import runs

SCRIPT = "trainers.py"
NEEDS = {"lightning": "lightning", "accelerated": "accelerate", "lora": "peft",
         "trainer": "accelerate"}
ABSENT = {package for package in NEEDS.values()
          if importlib.util.find_spec(package) is None}
if ABSENT and not os.environ.get("CKPT_MACHINERY"):
    pytest.skip(f"not installed: {', '.join(sorted(ABSENT))}", allow_module_level=True)


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_library_s_loop_computes_the_same(name):
    runs.assert_same_job(SCRIPT, name)


@pytest.mark.parametrize("name", ["trainer", "accelerated", "lightning"])
def test_a_library_s_loop_reaches_its_floor(name):
    runs.assert_at_floor(runs.assert_same_job(SCRIPT, name), blocks=3)


@pytest.mark.parametrize("name", ["trainer_accumulating", "lora"])
def test_blocks_are_recomputed(name):
    report = runs.assert_same_job(SCRIPT, name).report
    assert any(b["decision"] == "recompute" and b["recomputes"] > 2
               for b in report["blocks"])


def test_the_library_s_own_checkpointing_is_left_alone():
    report = runs.assert_same_job(SCRIPT, "trainer_checkpointing").report
    assert not any(b["recomputes"] for b in report["blocks"])
