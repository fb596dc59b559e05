"""Workers, pools, children, pickles and copies of a job that is recomputed."""

import importlib.util
import os

import pytest
import runs

SCRIPT = "processes.py"


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_job_with_other_processes_computes_the_same(name):
    if name == "by_value" and not os.environ.get("CKPT_MACHINERY") \
            and importlib.util.find_spec("cloudpickle") is None:
        pytest.skip("no cloudpickle")
    done = runs.assert_same_job(SCRIPT, name)
    assert any(b["recomputes"] > 2 for b in done.report["blocks"])
