"""Blocks that change after they were trusted: exact, or stopped in time."""

import pytest
import runs

SCRIPT = "natures.py"
STOPPED = {"data_written"}


@pytest.mark.parametrize("name", [n for n in runs.names(SCRIPT) if n not in STOPPED])
def test_a_change_after_trust_is_handled_exactly(name):
    runs.assert_same_job(SCRIPT, name)


@pytest.mark.parametrize("name", [
    "appends", "counts", "draws", "statistics", "scale_around_forward",
    "attribute_around_forward", "adapter_switched"])
def test_such_blocks_are_still_recomputed_at_the_end(name):
    report = runs.assert_same_job(SCRIPT, name).report
    chosen = [b for b in report["blocks"] if b["decision"] == "recompute"]
    assert len(chosen) >= 3
    assert all(b["recomputes"] >= report["iterations"] - 1 for b in chosen)
    assert runs.events(runs.both(SCRIPT, name)[1], "mismatch") == []


def test_an_effect_of_a_new_hook_is_not_repeated_by_recomputes():
    done = runs.assert_same_job(SCRIPT, "hooks_later")
    assert any(b["recomputes"] > 0 for b in done.report["blocks"] if b["name"] == "h.1")
    assert runs.events(done, "mismatch") == []


def test_what_cannot_be_put_back_is_stopped_before_any_step():
    plain, under = runs.both(SCRIPT, "data_written")
    assert plain.status == 0 and under.status == 1
    said, = runs.events(under, "mismatch")
    for part in ("h.2 (Body)", "saved tensor", "float32[8, 64, 256]",
                 "made by ViewBackward", "has changed since its forward"):
        assert part in said, said
    assert f"MismatchError: ckptagent: {said}" in under.stderr
    assert "no gradient was used" in under.stderr
