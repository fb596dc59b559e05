"""What is said of a device that cannot be watched."""

from __future__ import annotations

import pytest

from ckptshim import device
from fake_agent import FakeAgent


@pytest.mark.parametrize("shared", [0, 1])
def test_a_runtime_inside_torch_s_library_is_said_once(shared):
    agent = FakeAgent()
    agent.live_cudart_hooks = lambda: shared
    for _ in range(3):
        device.say_what_is_unseen(agent)
    assert len(agent.lines) == 1 - shared
    assert all(level == "warning" and "degraded" in line for level, line in agent.lines)
