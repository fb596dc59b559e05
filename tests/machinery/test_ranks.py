"""Two processes under torchrun: every rank plans alone, no collective is added.

The digests hold the number of collectives of each rank.
"""

import pytest
import runs

SCRIPT = "ranks.py"
IDLE = {"launcher"}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_rank_computes_and_communicates_the_same(name, rank):
    runs.assert_same_job(SCRIPT, f"{name} {rank}")


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", [
    "plain", "static", "twice", "views", "no_sync", "unequal", "zero", "in_backward"])
def test_each_rank_reaches_its_floor(name, rank):
    runs.assert_at_floor(runs.assert_same_job(SCRIPT, f"{name} {rank}"), blocks=2)


def test_blocks_that_communicate_are_never_recomputed():
    done = runs.assert_same_job(SCRIPT, "communicating 0")
    blocks = {b["name"].removeprefix("module."): b for b in done.report["blocks"]}
    for name in ("h.1", "h.3"):         # opened: what is inside communicates not
        assert name not in blocks
        assert any(f"{name}: collective" in said for said in runs.events(done, "proof"))
        assert blocks[f"{name}.block"]["decision"] == "recompute"
    assert blocks["h.0"]["decision"] == "recompute"


def test_the_report_shows_how_far_apart_the_ranks_are():
    done = runs.assert_same_job(SCRIPT, "unequal 0")
    peaks = [start["peak_bytes"]["last"] for rank in (0, 1)
             for start in runs.assert_same_job(SCRIPT, f"unequal {rank}").reports]
    assert peaks[1] > 1.2 * peaks[0]
    assert "2 ranks: last peaks from" in done.plan
    assert "recomputes the same blocks" in done.plan or "some ranks only" in done.plan


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_does_not_train_writes_no_report(rank):
    assert runs.both(SCRIPT, f"launcher {rank}")[1].reports == []
