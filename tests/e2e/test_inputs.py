"""Inputs that dropped blocks hold and kept ones do not: plans that keep some."""

import functools
import json

import pytest

import inputs
import job

# Which blocks are kept: some, all.
PLANS = ("krrkrk", "kkkkkk")


@functools.cache
def lowest(name):
    """The job with every block dropped."""
    done = job.run([job.HERE / "inputs.py", name, "--steps", 4], "min")
    assert done.status == 0, done.stderr
    return done


def noted(name):
    """What nothing but notes holds, of each kind of iteration."""
    return [kind["noted"] for kind in json.loads(lowest(name).profile)["kinds"]]


def under_plan(name, kept, tmp_path):
    plan = json.loads(lowest(name).plan)
    for kind in plan["plans"]:
        for decision, letter in zip(kind["decisions"], kept):
            decision["decision"] = "keep" if letter == "k" else "recompute"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = job.run([job.HERE / "inputs.py", name, "--steps", 6], "max",
                   CKPT_PLAN=str(tmp_path / "plan.json"))
    assert done.status == 0, done.stderr
    assert done.recomputed() == kept.count("r")
    return done


@pytest.mark.parametrize("kept", PLANS)
@pytest.mark.parametrize("name", sorted(inputs.JOBS))
def test_the_peak_of_a_plan_is_predicted_to_the_byte(name, kept, tmp_path):
    peaks = under_plan(name, kept, tmp_path).report["peak_bytes"]
    assert peaks["predicted"] == peaks["last"]


@pytest.mark.parametrize("name", ["post_norm", "viewed", "listed"])
def test_each_block_has_an_input_that_its_note_alone_holds(name):
    for kind in noted(name):
        assert [entry["calls"] for entry in kind] == [[i] for i in
                                                      range(inputs.DEPTH)]


def test_what_all_blocks_were_given_is_held_by_all_their_notes():
    for kind in noted("shared"):
        assert [*range(inputs.DEPTH)] in [entry["calls"] for entry in kind]


def test_what_the_job_keeps_itself_is_never_said_to_be_held_by_notes_alone():
    assert noted("kept") and not any(noted("kept"))


def test_a_peak_behind_the_last_block_is_named_after_it():
    last = inputs.DEPTH - 1
    for plan in json.loads(lowest("post_norm").plan)["plans"]:
        assert plan["peak"] == {"mark": "D", "call": last, "name": f"h.{last}"}
