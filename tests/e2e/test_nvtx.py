"""Jobs that name their blocks with NVTX ranges (CKPT_BLOCKS=nvtx), on a CPU."""

import functools
import json
import re
import subprocess
import sys

import pytest

import job

pytest.importorskip("nvtx")

STEPS = 5
LAYERS = [f"layer {i}" for i in range(6)]


@functools.cache
def plain(name):
    """The job without the agent."""
    done = job.run([job.HERE / "ranged.py", name, "--steps", STEPS], agent=False)
    assert done.status == 0, done.stderr
    return done


@functools.cache
def under(name, budget):
    """The job under the agent; budget may be "middle"."""
    if budget == "middle":
        floor = under(name, "min").report["floor_bytes"]
        budget = (floor + under(name, "max").peak) // 2
    return job.run([job.HERE / "ranged.py", name, "--steps", STEPS], budget,
                   CKPT_BLOCKS="nvtx")


def assert_same(name, done):
    assert done.status == 0, done.stderr[-2000:]
    assert done.stdout == plain(name).stdout
    assert job.differences(plain(name), done) == []


def blocks(done):
    """Names of the blocks that may be recomputed."""
    return [b["name"] for b in done.report["blocks"] if b["reason"] != "not_selected"]


def ranges(done):
    return {r["name"]: r for r in done.report["ranges"]}


@pytest.mark.parametrize("name", ["layers", "varying", "stages", "started", "by_hand"])
def test_a_budget_is_held_by_blocks_that_ranges_name(name):
    done = under(name, "middle")
    assert_same(name, done)
    assert done.peak <= done.report["budget_bytes"] < under(name, "max").peak
    assert 0 < done.recomputed() < len(blocks(done))


@pytest.mark.parametrize("name", ["layers", "started", "by_hand"])
def test_a_block_has_the_name_of_its_range(name):
    done = under(name, "min")
    assert blocks(done) == LAYERS
    for text in LAYERS:
        assert ranges(done)[text]["calls"] == 1
        assert ranges(done)[text]["block"] == text


def test_blocks_found_when_the_first_iteration_ends_are_proven_in_the_second():
    blocks = under("by_hand", "min").report["blocks"]
    assert {b["recomputes"] for b in blocks if b["decision"] == "recompute"} == {
        STEPS - 1}


def test_blocks_of_one_text_are_told_apart_by_where_they_are():
    assert blocks(under("same", "min")) == [
        "layer", *(f"layer (h.{i})" for i in range(1, 6))]
    assert_same("same", under("same", "min"))


def test_a_text_that_changes_names_its_block_once():
    done = under("varying", "min")
    assert blocks(done) == [f"{text} of step 0" for text in LAYERS]
    assert all(b["calls"] == STEPS for b in done.report["blocks"])


def test_a_range_inside_the_range_of_a_block_names_a_part_of_it():
    whole, parts = under("stages", "max"), under("stages", "min")
    assert blocks(whole) == ["stage 0", "stage 1"]
    assert blocks(parts) == [f"layer {row}.{i}" for row in range(2) for i in range(4)]
    assert parts.report["floor_bytes"] < whole.peak / 2


def test_ranges_that_enclose_several_calls_are_reported_and_name_nothing():
    done = under("pairs", "min")
    assert_same("pairs", done)
    assert blocks(done) == ["layer 4", "layer 5"]
    pairs = [ranges(done)[f"pair {i}"] for i in range(3)]
    assert [(r["calls"], r["block"]) for r in pairs] == [(2, None)] * 3
    assert pairs[0]["peak_bytes"] > 1_000_000
    others = [b for b in done.report["blocks"] if b["name"] not in blocks(done)]
    assert [(b["name"], b["decision"]) for b in others] == [
        ("h.0", "exclude"), ("h.2", "exclude")]


def test_a_range_around_the_whole_model_names_it_where_nothing_inside_has_one():
    assert blocks(under("whole", "min")) == ["forward"]
    assert ranges(under("layers", "min"))["step 0"]["block"] is None
    assert_same("whole", under("whole", "min"))


@pytest.mark.parametrize("name, seen", [("epoch", 2), ("late_epoch", 1)])
def test_a_range_around_many_steps_does_not_name_the_model(name, seen):
    done = under(name, "min")
    assert_same(name, done)
    assert done.report["blocks"] == []
    assert ranges(done)["epoch"]["calls"] == seen
    why = {2: "encloses exactly one module call, 1 enclose several",
           1: "that encloses a module call was closed"}[seen]
    assert [why in line for line in done.agent_lines if "nvtx" in line] == [True]


def test_without_ranges_the_job_runs_plain_and_one_line_says_why():
    done = under("none", "min")
    assert_same("none", done)
    assert done.report["blocks"] == [] and done.report["ranges"] == []
    said = [line for line in done.agent_lines if "nvtx" in line]
    assert said == ["ckptagent: CKPT_BLOCKS=nvtx: the job has opened no NVTX range; "
                    "no block is recomputed"]
    assert done.peak == under("none", "max").peak


def test_the_bytes_of_a_range_are_those_of_its_block_and_its_result():
    done = under("layers", "max")
    result = 4 * 192 * 64 * 4
    saved = {b["name"]: b["saved_bytes"] for b in done.report["blocks"]}
    for text in LAYERS[:-1]:
        assert ranges(done)[text]["peak_bytes"] == saved[text] + result
    dropped = ranges(under("layers", "min"))
    assert all(dropped[text]["peak_bytes"] <= result for text in LAYERS[:-1])


def test_the_report_shows_ranges(tmp_path):
    (tmp_path / "run.1.json").write_text(json.dumps(under("pairs", "min").report))
    shown = subprocess.run([job.built("ckptagent"), "report", tmp_path], text=True,
                           capture_output=True, check=False).stdout
    assert re.search(r"NVTX ranges\n +name +module calls +block +at the peak", shown)
    assert re.search(r"\n  pair 0 +2  +[0-9.]+ MiB", shown)
    assert re.search(r"\n  layer 4 +1  layer 4  ", shown)


def test_other_jobs_have_no_ranges():
    done = job.run([job.HERE / "ranged.py", "layers", "--steps", 2], "max")
    assert "ranges" not in done.report
    assert [b["name"] for b in done.report["blocks"]] == [f"h.{i}" for i in range(6)]


CHILD = """
import os, subprocess, sys, nvtx, torch
torch.ones(1)
with nvtx.annotate("job"):
    pass
name = "NVTX_INJECTION64_PATH"
print(name in os.environ, open("/proc/self/environ").read().count(name))
for how in ({}, {"env": dict(os.environ)}):
    print(subprocess.run(["env"], capture_output=True, text=True, **how).stdout.count(
        name), flush=True)
os.system("env | grep -c " + name)
"""


@pytest.mark.parametrize("given", [{}, {"NVTX_INJECTION64_PATH": "/no/such/tool.so"}])
def test_the_environment_of_the_job_and_its_children_is_the_job_s_own(given):
    seen = [subprocess.run([sys.executable, "-c", CHILD], text=True,
                           capture_output=True, check=False,
                           env=job.environment(**given, **agent)).stdout
            for agent in ({}, {"LD_PRELOAD": str(job.built("libckptagent.so")),
                               "CKPT_BUDGET": "max", "CKPT_BLOCKS": "nvtx"})]
    assert seen[0] == seen[1] and seen[0].count("\n") == 4
