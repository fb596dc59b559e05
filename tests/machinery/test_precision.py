"""Autocast and GradScaler: bit by bit as without the agent, at the floor."""

import pytest
import runs

SCRIPT = "precision.py"


@pytest.mark.parametrize("name", runs.names(SCRIPT))
def test_a_job_under_autocast_is_the_same_and_reaches_its_floor(name):
    runs.assert_at_floor(runs.assert_same_job(SCRIPT, name), blocks=2)
