"""torch.compile, TorchScript, fx and export beside the agent.

The digests hold the number of graphs and of graph breaks as well.
"""

import pytest
import runs

SCRIPT = "compiled.py"
WHOLE = {"whole", "in_place", "breaking", "scripted"}


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_nothing_is_compiled_more_often_or_computes_otherwise(name):
    runs.assert_same_job(SCRIPT, name)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_model_compiled_as_a_whole_is_left_alone_and_the_log_says_so(name):
    done = runs.assert_same_job(SCRIPT, name)
    assert any("is compiled or scripted as a whole and is left alone" in line
               for line in done.agent_lines), done.agent_lines


@pytest.mark.parametrize("name", ["blocks", "blocks_in_place", "scripted_blocks"])
def test_a_compiled_block_is_left_alone_and_listed(name):
    done = runs.assert_same_job(SCRIPT, name)
    found = set(runs.reasons(done).values()) & {"compiled", "scripted"}
    assert found == {"scripted" if name == "scripted_blocks" else "compiled"}


@pytest.mark.parametrize("name", ["blocks_in_place", "scripted_blocks", "function"])
def test_the_blocks_beside_compiled_ones_are_recomputed(name):
    report = runs.assert_same_job(SCRIPT, name).report
    assert any(b["decision"] == "recompute" and b["recomputes"] > 2
               for b in report["blocks"])
