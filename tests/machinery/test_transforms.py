"""torch.func, forward-mode AD, double backward and other ways through a model."""

import pytest
import runs

SCRIPT = "transforms.py"


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_transformed_model_computes_the_same(name):
    runs.assert_same_job(SCRIPT, name)


@pytest.mark.parametrize("name", ["swapped", "tied", "other_threads"])
def test_weights_given_by_the_call_are_recomputed_with(name):
    runs.assert_at_floor(runs.assert_same_job(SCRIPT, name), blocks=3)


@pytest.mark.parametrize("name", ["vmapped_only", "ensembled"])
def test_under_a_transform_nothing_is_recomputed(name):
    report = runs.assert_same_job(SCRIPT, name).report
    assert not any(b["recomputes"] for b in report["blocks"])
