"""One plan for several devices: it holds on each, or says on which it does not."""

from __future__ import annotations

import itertools
import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from ckptshim import modes
from ckptshim.blocks import Call
from ckptshim.device import Device
from ckptshim.devices import Devices, together
from ckptshim.events import Events
from ckptshim.kinds import Kind, Tape, Tapes
from ckptshim.planning import Planning, dropped_anyway
from fake_agent import FakeAgent

MS = [1.0, 2.0, 4.0]        # of the calls' recomputes


def profile(saved: list[int], recompute: list[int]) -> dict[str, Any]:
    """A tape of one device: calls in a row, each with what it saves and needs there."""
    calls, n, outside = [], len(saved), 10
    segments = [["S", -1, 0]]
    for i in range(n):
        segments += [[mark, i, outside + saved[i] * (mark in "FE")] for mark in "FED"]
        calls.append({"name": f"b{i}", "call": 0, "dropped": True, "reason": None,
                      "saved_bytes": saved[i], "recompute_ms": MS[i % len(MS)]})
    for i in reversed(range(n)):
        segments += [["B", i, outside + saved[i] + recompute[i]],
                     ["R", i, outside + saved[i]]]
    segments.append(["Z", -1, 0])
    found = {"root": "M", "key": "k", "fingerprint": "0" * 16, "size": 1,
             "held": {"parameters": 0}, "calls": calls,
             "storages": [{"bytes": b, "freed": 3 * i + 2, "calls": [i]}
                          for i, b in enumerate(saved) if b],
             "segments": [{"mark": m, "call": c, "live": 0, "peak": p}
                          for m, c, p in segments]}
    # As the shim records it.
    return dropped_anyway(found, {i for i in range(n) if not saved[i]})


def peak(tape: dict[str, Any], keep: set[int]) -> int:
    """The true peak of FORMATS.md."""
    segments = tape["segments"]
    dropped = [i for i, call in enumerate(tape["calls"]) if call["dropped"]]
    marks = {(s["mark"], s["call"]): k for k, s in enumerate(segments)}
    highest, inside = 0, -1
    for k, segment in enumerate(segments):
        if segment["mark"] != "X":
            inside = segment["call"] if segment["mark"] == "B" else -1
        if inside in keep and inside in dropped:
            continue
        held = sum(j["bytes"] for j in tape["storages"] if j["freed"] < k and any(
            i in keep and marks["D", i] <= k < marks.get(("B", i), len(segments))
            for i in j["calls"]))
        highest = max(highest, segment["peak"] + held)
    return highest


class BruteForce:
    """In the planner's place: every choice is tried."""

    def solve(self, document: dict[str, Any],
              request: dict[str, Any]) -> dict[str, Any]:
        (tape,) = document["kinds"]
        free = [i for i, call in enumerate(tape["calls"]) if call["dropped"]]
        fixed = set(range(len(tape["calls"]))) - set(free)
        every = [fixed | set(some) for n in range(len(free) + 1)
                 for some in itertools.combinations(free, n)]
        budget = request["value"]
        best = min(every, key=lambda keep: (
            max(0, peak(tape, keep) - budget),
            sum(c["recompute_ms"] for i, c in enumerate(tape["calls"])
                if i not in keep)))
        return self._plan(tape, best, budget, min(peak(tape, k) for k in every))

    def judge(self, text: str, document: dict[str, Any],
              request: dict[str, Any]) -> dict[str, Any]:
        (tape,), (plan,) = document["kinds"], json.loads(text)["plans"]
        for call, entry in zip(tape["calls"], plan["decisions"]):
            assert (entry["decision"] == "exclude") == (not call["dropped"])
        keep = {i for i, entry in enumerate(plan["decisions"])
                if entry["decision"] != "recompute"}
        return self._plan(tape, keep, request["value"], plan["floor_bytes"])

    @staticmethod
    def _plan(tape: Any, keep: set[int], budget: int, floor: int) -> dict[str, Any]:
        predicted = peak(tape, keep)
        return {"predicted_bytes": predicted, "budget_bytes": budget,
                "floor_bytes": floor, "plain_bytes": 0,
                "feasible": predicted <= budget,
                "peak": {"mark": "Z", "call": -1, "name": ""},
                "decisions": [{"name": c["name"], "call": 0, "decision":
                               "exclude" if not c["dropped"] else
                               "keep" if i in keep else "recompute"}
                              for i, c in enumerate(tape["calls"])]}


def planning_for(budget: int, agent: FakeAgent) -> Planning:
    settings: Any = SimpleNamespace(minimum=False, budgeted=True, plan="", limit=budget,
                                    planner="optimal", on_infeasible="best_effort")
    planner: Any = BruteForce()
    return Planning(agent, planner, settings, Events(agent))


def tapes_of(profiles: list[dict[str, Any]], agent: FakeAgent) -> Tapes:
    calls = [Call(None, i) for i in range(len(profiles[0]["calls"]))]
    tapes = Tapes(((1,),), 1, calls)
    for i, entry in enumerate(profiles):
        tapes.add(Tape(Device(agent, i), entry), ((1,),), 1)
    return tapes


def solve(profiles: list[dict[str, Any]], budget: int) -> tuple[Tapes, FakeAgent]:
    """A plan for devices with these tapes."""
    agent = FakeAgent()
    planning, tapes = planning_for(budget, agent), tapes_of(profiles, agent)
    assert planning.solve(tapes, {tape.device: 0 for tape in tapes}, 0)
    return tapes, agent


def chosen(tapes: Tapes) -> list[int]:
    return sorted(call.number for call in tapes.recompute)


def test_each_device_gets_what_it_needs() -> None:
    """Calls 0 and 1 are on the first device, 2 and 3 on the second."""
    tapes, _ = solve([profile([50, 50, 0, 0], [5] * 4),
                      profile([0, 0, 50, 50], [5] * 4)], 80)
    assert chosen(tapes) == [0, 2] and tapes.feasible


def test_a_device_that_is_not_short_drops_nothing() -> None:
    tapes, _ = solve([profile([50, 50, 0, 0], [5] * 4),
                      profile([0, 0, 20, 20], [5] * 4)], 80)
    assert chosen(tapes) == [0] and tapes.feasible


def test_a_call_on_both_devices_is_dropped_once() -> None:
    """What the first device drops is not asked of the second one again."""
    tapes, _ = solve([profile([40, 60], [0, 0]), profile([40, 60], [0, 0])], 90)
    assert chosen(tapes) == [0] and tapes.feasible


def test_a_recompute_for_another_device_finds_room() -> None:
    """The second device needs call 1 dropped. Its recompute takes much of the first,
    which has to drop call 0 for that.
    """
    first, second = profile([40, 5, 0], [0, 45, 0]), profile([0, 60, 50], [0, 0, 0])
    alone, _ = solve([first], 80)
    assert chosen(alone) == []
    tapes, _ = solve([first, second], 80)
    assert chosen(tapes) == [0, 1] and tapes.feasible
    assert tapes.each[0].plan["predicted_bytes"] == peak(first, {2}) <= 80
    assert peak(first, {0, 2}) > 80


@pytest.mark.parametrize("segment", [0, 90])
def test_what_is_left_to_an_allocator_shrinks_once_a_plan_was_followed_twice(
        segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first iteration finds nothing cached. One segment more must find room."""
    monkeypatch.setattr(Device, "largest_segment", lambda device: segment)
    agent = FakeAgent()
    planning = planning_for(200, agent)
    tapes = tapes_of([profile([50] * 3, [5] * 3)], agent)
    (tape,) = tapes
    tape.margin = 100
    bases = {tape.device: 0}
    assert planning.solve(tapes, bases, 0) and len(tapes.recompute) == 2
    tape.device.peaks.add(tape.predicted(0) + 4)
    tape.device.overhead = 4
    planning.compare(tapes, bases, 1)
    assert (tape.margin, len(tapes.recompute)) == (100, 2)
    planning.compare(tapes, bases, 2)
    if segment:
        assert (tape.margin, len(tapes.recompute)) == (100, 2)
        return
    assert tape.margin < 100 and len(tapes.recompute) == 1
    planning.compare(tapes, bases, 3)
    planning.compare(tapes, bases, 4)
    assert len(tapes.recompute) == 1            # once


def test_one_line_names_the_device_where_it_cannot_hold() -> None:
    tapes, agent = solve([profile([10, 10], [0, 0]), profile([90, 90], [0, 0])], 60)
    assert not tapes.feasible and chosen(tapes) == [0]
    said = [line for _, line in agent.lines if "cannot be met" in line]
    assert len(said) == 1 and "cannot be met on cuda:1: the lowest peak" in said[0]


def test_what_is_said_of_a_device_is_true() -> None:
    """Whatever the tapes: each plan's peak is that of what is dropped in the end."""
    draw, held = random.Random(3), 0
    for _ in range(300):
        profiles = [profile([draw.choice((0, 10, 30, 50)) for _ in range(4)],
                            [draw.choice((0, 20, 60)) for _ in range(4)])
                    for _ in range(2)]
        budget = draw.randrange(60, 160)
        tapes, _ = solve(profiles, budget)
        keep = set(range(4)) - set(chosen(tapes))
        for tape, entry in zip(tapes, profiles):
            assert tape.plan["predicted_bytes"] == peak(entry, keep)
            assert tape.plan["feasible"] == (peak(entry, keep) <= budget)
        held += tapes.feasible
    assert held > 100


def test_tapes_of_devices_are_of_the_same_calls_and_the_smaller_inputs() -> None:
    agent = FakeAgent()
    devices = [Device(agent, 0), Device(agent, 1)]
    signature: Any = SimpleNamespace(key="k", trust="k")
    kind = Kind(something(), signature)
    assert not kind.work_on(devices) and kind.next_device() is devices[0]
    a, b = Call(None, 0), Call(None, 1)
    entry = profile([5, 5], [0, 0])
    assert kind.keep_tape(Tape(devices[0], entry), ((4, 9),), 36, [a, b]) is None
    assert kind.next_device() is devices[1]
    # Another path through the model: all from the start.
    assert kind.keep_tape(Tape(devices[1], entry), ((4, 9),), 36, [b, a]) is None
    assert kind.next_device() is devices[0] and kind.latest is None
    kind.keep_tape(Tape(devices[0], entry), ((4, 9),), 36, [a, b])
    tapes = kind.keep_tape(Tape(devices[1], entry), ((8, 3),), 24, [a, b])
    assert tapes is kind.latest and tapes.shapes == ((4, 3),)
    assert kind.find(((4, 3),)) is tapes and kind.find(((4, 9),)) is None
    kind.state = "planned"
    assert kind.work_on([*devices, Device(agent, 2)])       # one more has turned up
    assert kind.state == "prove" and kind.must_prove
    assert kind.find(((4, 3),)) is None and kind.latest is tapes    # to be reported


def something() -> Any:
    """Something that can be referred to weakly."""
    return type("Root", (), {})()


def test_a_kind_keeps_the_devices_that_it_met_unless_it_moved_from_the_cpu() -> None:
    agent = FakeAgent()
    cpu, first, second = (Device(agent, n) for n in (None, 0, 1))
    assert together([second], [first]) == [first, second]
    assert together([cpu], [first]) == [first]
    assert together([first], [cpu]) == [cpu]


@pytest.mark.parametrize("short", [0, 1])
def test_only_frames_on_the_short_device_are_spilled(short: int) -> None:
    """Oldest first, and no more than it takes."""
    agent = FakeAgent()
    live = {1: 10, 2: 10}
    live[1 + short] = 90
    agent.live = live.__getitem__
    spilled = []

    class Waiting:
        def __init__(self, index: int) -> None:
            self.index = index

        def is_on(self, device: Device) -> bool:
            return device.cuda == self.index % 2

    def spill(frame: Waiting) -> int:
        spilled.append(frame.index)
        live[1 + frame.index % 2] -= 20
        return 20

    frames: Any = SimpleNamespace(proofs=SimpleNamespace(unreal=False, spill=spill))
    settings: Any = SimpleNamespace(limit=80)
    devices = Devices(agent, settings, frames)
    devices.now = [Device(agent, 0), Device(agent, 1)]
    waiting = [Waiting(i) for i in range(6)]
    current: Any = SimpleNamespace(unproven=[lambda w=w: w for w in waiting], spilled=0)
    devices.relieve(current)
    assert spilled == [short, 2 + short] and current.spilled == 40
    assert len(current.unproven) == 4


def test_streams_of_one_device_are_left_to_the_engine() -> None:
    assert modes.take().streams == ()
