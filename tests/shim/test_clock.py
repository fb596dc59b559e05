"""Times on a device that is not there: made-up events and made-up records."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ckptshim.clock import Clock
from ckptshim.cupti import Cupti
from fake_agent import FakeAgent


class Records(FakeAgent):
    """CUPTI's part of the agent: a region takes its number in microseconds."""

    def __init__(self, why: str = "", lost: str = "") -> None:
        super().__init__()
        self.why, self.lost = why, lost
        self.calls: list[object] = []

    def cupti_begin(self) -> str:
        self.calls.append("begin")
        return self.why

    def cupti_enter(self) -> int:
        self.calls.append("enter")
        return 0 if self.why else self.calls.count("enter")

    def cupti_leave(self, region: int) -> None:
        self.calls.append(region)

    def cupti_end(self, regions: list[int]) -> tuple[list[int], str]:
        self.calls.append("end")
        return [1000 * region for region in regions], self.lost


class Event:
    """Each is half a millisecond after the one before."""

    made = 0

    def __init__(self, device: int = 0) -> None:
        Event.made += 1
        self.device = device
        self.at = 0.5 * Event.made

    def elapsed_time(self, end: Event) -> float:
        assert end.device == self.device
        return (end.at - self.at) * (1 + self.device)


@pytest.fixture
def waits(monkeypatch):
    """Which devices were waited for."""
    waited: list[int] = []
    monkeypatch.setattr(Clock, "_event", staticmethod(Event))
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return waited


def clock_of(agent=None, **attributes) -> Clock:
    clock = Clock()
    clock.devices = [0]
    clock.cupti = Cupti(agent) if agent is not None else None
    for name, value in attributes.items():
        setattr(clock, name, value)
    return clock


def iteration(clock, profile=True, calls=2):
    """The forward_ms of each call after one iteration."""
    clock.begin(profile)
    made = [SimpleNamespace(forward_ms=0.0) for _ in range(calls)]
    for call in made:
        clock.stop(clock.start(), call, "forward_ms")
    clock.read()
    return [call.forward_ms for call in made]


def test_events_are_read_once_an_iteration(waits):
    clock = clock_of()
    assert iteration(clock) == [0.5, 0.5] and len(waits) == 1
    assert iteration(clock, profile=False) == [0.0, 0.0] and len(waits) == 1


def test_on_several_devices_the_longest_time_counts(waits):
    clock = clock_of(devices=[0, 2])
    assert iteration(clock) == [3.0, 3.0] and waits == [0, 2]


def test_a_device_that_joins_meanwhile_is_not_compared_with_another(waits):
    clock = clock_of(devices=[1])
    clock.begin(True)
    call, begin = SimpleNamespace(), clock.start()
    clock.devices = [0, 1]
    clock.stop(begin, call, "forward_ms")
    clock.read()
    assert call.forward_ms == 1.0


def test_records_take_the_place_of_events(waits):
    agent = Records()
    clock = clock_of(agent)
    assert iteration(clock) == [0.001, 0.002]
    assert agent.calls == ["begin", "enter", 1, "enter", 2, "end"]
    assert iteration(clock, profile=False) == [0.0, 0.0]
    assert agent.calls[6:] == []
    assert iteration(clock, calls=1) == [0.003] and not agent.lines


@pytest.mark.parametrize("trouble", [{"why": "a profiler has CUPTI"},
                                     {"lost": "a profiler has CUPTI"}])
def test_without_records_events_count_and_one_line_says_so(waits, trouble):
    agent = Records(**trouble)
    clock = clock_of(agent)
    assert iteration(clock) == iteration(clock) == [0.5, 0.5]
    assert agent.lines == [("warning", "CKPT_TIMING=cupti: a profiler has CUPTI; "
                                       "times come from CUDA events")]
    assert agent.calls.count("begin") == 2      # it may be gone by then


def test_a_region_that_could_not_be_entered_has_its_event(waits):
    agent = Records()
    agent.cupti_enter = iter([0, 7]).__next__
    assert iteration(clock_of(agent)) == [0.5, 0.007]


def test_nothing_is_recorded_while_a_graph_is_captured(waits, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    agent = Records()
    iteration(clock_of(agent))
    assert "begin" not in agent.calls and "end" not in agent.calls


def test_a_recording_without_an_end_is_ended_before_the_next(waits):
    agent = Records()
    clock = clock_of(agent)
    clock.begin(True)
    clock.begin(True)
    assert agent.calls == ["begin", "end", "begin"]


def test_a_forked_child_has_no_recording(waits):
    agent = Records()
    clock = clock_of(agent)
    clock.begin(True)
    clock.stop(clock.start(), SimpleNamespace(), "forward_ms")
    clock.after_fork()
    clock.read()
    assert "end" not in agent.calls and not waits


def test_where_costs_are_counted_events_say_nothing(waits):
    assert iteration(clock_of(counted=True)) == [0.0, 0.0] and not waits
    assert iteration(clock_of(Records(), counted=True)) == [0.001, 0.002]
    assert iteration(clock_of(Records("no"), counted=True)) == [0.0, 0.0]


def test_on_a_cpu_the_time_that_passes_counts(waits):
    agent = Records()
    clock = clock_of(agent, devices=[])
    assert all(ms > 0 for ms in iteration(clock)) and not agent.calls
