"""Jobs that checkpoint by themselves are never wrapped twice."""

import pytest
import runs

SCRIPT = "checkpointed.py"
# What the job checkpoints or hooks itself, all of it.
ALONE = {"reentrant", "not_reentrant", "offloaded"}


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_job_with_hooks_of_its_own_is_the_same(name):
    runs.assert_same_job(SCRIPT, name)


@pytest.mark.parametrize("name", sorted(ALONE))
def test_what_the_job_checkpoints_is_not_recomputed_once_more(name):
    report = runs.assert_same_job(SCRIPT, name).report
    assert all(b["decision"] != "recompute" for b in report["blocks"])
    assert not any(b["recomputes"] for b in report["blocks"])


@pytest.mark.parametrize("name", ["every_other", "every_other_reentrant"])
def test_the_other_blocks_are_recomputed(name):
    done = runs.assert_same_job(SCRIPT, name)
    runs.assert_at_floor(done)
    assert {b["name"] for b in done.report["blocks"]} == {"h.1", "h.3", "h.5"}


def test_a_block_that_the_job_checkpoints_no_more_is_recomputed_by_the_agent():
    report = runs.assert_same_job(SCRIPT, "ends_later").report
    chosen = [b for b in report["blocks"] if b["decision"] == "recompute"]
    assert len(chosen) >= 3 and all(b["recomputes"] > 2 for b in chosen)
    assert report["peak_bytes"]["last"] <= report["floor_bytes"] * 1.001


def test_the_library_s_switch_is_followed():
    report = runs.assert_same_job(SCRIPT, "library").report
    assert any(b["recomputes"] for b in report["blocks"])
