"""Unmodified jobs under the preloaded agent, compared with the same jobs
without it: what they compute, print and return, and what the agent reports."""

import functools
import json
import re

import pytest

import job

STEPS = 6
NAMES = ("gpt", "gpt2", "resnet")
NEVER_BELOW = "1M"  # under the floor of every model here
REASONS = {
    None, "mutates_python_state", "mutates_arguments", "mutates_parameters",
    "global_effect", "collective", "recompute_differs", "recompute_raises",
    "no_gradient", "saves_nothing", "instance_forward", "compiled",
    "scripted", "hooks_in_force", "not_selected"}


def start(script, name, budget, steps=STEPS, **options):
    argv = [job.HERE / script, name, "--steps", str(steps)]
    return job.run(argv, budget=budget, **options)


@functools.cache
def plain(name, script="models.py", steps=STEPS):
    """The job without the agent."""
    done = start(script, name, None, steps, agent=False)
    assert script == "loops.py" or done.status == 0, done.stderr
    return done


@functools.cache
def under(name, budget, script="models.py", steps=STEPS):
    """The job under the agent; budget may be "middle"."""
    if budget == "middle":
        budget = middle(name, script, steps)
    return start(script, name, budget, steps)


def middle(name, script="models.py", steps=STEPS):
    floor = under(name, "min", script, steps).report["floor_bytes"]
    peak = under(name, "max", script, steps).report["peak_bytes"]["last"]
    assert 0 < floor < peak
    return (floor + peak) // 2


def assert_same(one, other):
    assert one.status == other.status, other.stderr[-2000:]
    assert one.stdout == other.stdout
    assert job.differences(one, other) == []


def said(done, pattern):
    return [line for line in done.agent_lines if re.search(pattern, line)]


# ---- the job stays the same ------------------------------------------------

@pytest.mark.parametrize("name, budget", [
    *((name, budget) for name in NAMES for budget in ("max", "min", "middle")),
    *(("gpt", budget) for budget in (None, "nonsense", NEVER_BELOW))])
def test_a_job_computes_prints_and_returns_the_same(name, budget):
    if name == "gpt2":
        pytest.importorskip("transformers")
    assert_same(plain(name), under(name, budget))


@pytest.mark.parametrize("budget", ["min", "middle"])
@pytest.mark.parametrize("loop", [
    "accumulation", "gan", "by_hand", "evaluation", "sharing", "raising",
    "looking", "lazy", "seldom", "telling", "named", "unfreezing"])
def test_a_loop_of_another_shape_computes_the_same(loop, budget):
    done = under(loop, budget, "loops.py", 8)
    assert_same(plain(loop, "loops.py", 8), done)
    assert done.status == 0


def test_blocks_that_were_frozen_are_recomputed_once_they_train():
    done = under("unfreezing", "min", "loops.py", 8)
    decisions = {b["name"]: b["decision"] for b in done.report["blocks"]}
    assert [decisions[f"h.{i}"] for i in range(5)] == 5 * ["recompute"]
    assert done.report["peak_bytes"]["last"] == done.report["floor_bytes"]


def test_blocks_that_did_nothing_at_first_are_recomputed_once_they_do():
    peak = under("switching", "max", "loops.py", 8).report["peak_bytes"]["last"]
    done = start("loops.py", "switching", str(int(0.6 * peak)), 8)
    assert_same(plain("switching", "loops.py", 8), done)
    peaks = done.report["peak_bytes"]
    assert peaks["last"] <= 0.6 * peak and done.recomputed() > 1
    # Their class calls super().forward, which is part of the same call.
    assert peaks["last"] == pytest.approx(peaks["predicted"], rel=0.001)
    assert all(block["call"] == 0 for block in done.report["blocks"])
    lowest = under("switching", "min", "loops.py", 8)
    assert lowest.report["peak_bytes"]["last"] < 0.4 * peak
    assert_same(plain("switching", "loops.py", 8), lowest)


def test_a_model_whose_part_was_called_alone_at_first_is_planned_as_a_whole():
    done = under("staged", "min", "loops.py", 8)
    assert_same(plain("staged", "loops.py", 8), done)
    decisions = {b["name"]: b["decision"] for b in done.report["blocks"]}
    assert decisions["first.h.1"] == decisions["second.h.1"] == "recompute"
    assert done.report["peak_bytes"]["last"] == done.report["floor_bytes"]


def test_a_job_that_takes_more_from_some_step_on_is_recorded_again():
    done = under("outgrowing", "min", "loops.py", 12)
    assert_same(plain("outgrowing", "loops.py", 12), done)
    peaks = done.report["peak_bytes"]
    assert peaks["last"] == pytest.approx(peaks["predicted"], rel=0.001)
    assert done.report["floor_bytes"] == done.peak


@pytest.mark.parametrize("budget", ["max", "min"])
def test_a_single_backward_without_a_step_is_an_iteration(budget):
    done = under("once", budget, "loops.py", 1)
    assert_same(plain("once", "loops.py", 1), done)
    assert done.report["iterations"] == 1 and done.peak > 0


def test_forwards_alone_are_no_training():
    done = under("forward_only", "min", "loops.py", 3)
    assert_same(plain("forward_only", "loops.py", 3), done)
    assert done.reports == []


def test_a_job_that_ends_while_it_learns_again_reports_the_plan_before():
    done = under("switching", "min", "loops.py", 2)
    assert done.report["floor_bytes"] > 0 and done.report["feasible"]
    assert done.report["peak_bytes"]["predicted"] > 0


def test_graphs_that_outlive_their_step_get_a_plan():
    """What was dropped is needed once more before the parameters change."""
    done = under("retained", "min", "loops.py", 8)
    assert_same(plain("retained", "loops.py", 8), done)
    peaks = done.report["peak_bytes"]
    assert peaks["last"] == peaks["predicted"] == done.report["floor_bytes"]
    assert done.report["budget_bytes"] == done.report["floor_bytes"]


def test_an_uncaught_error_of_the_job_ends_it_as_before():
    before, after = (f("failing", *rest) for f, rest in (
        (plain, ("loops.py", 5)), (under, ("min", "loops.py", 5))))
    assert before.status == 1
    assert_same(before, after)
    assert before.stderr.splitlines()[-1] == [
        line for line in after.stderr.splitlines()
        if not line.startswith("ckptagent")][-1]


# ---- the budget is held ----------------------------------------------------

@pytest.mark.parametrize("name", NAMES)
def test_a_reachable_budget_is_held_with_some_blocks_recomputed(name):
    if name == "gpt2":
        pytest.importorskip("transformers")
    done = under(name, "middle")
    assert done.report["feasible"] is True
    assert done.peak <= done.report["budget_bytes"]
    assert 0 < done.recomputed() < len(done.report["blocks"])


@pytest.mark.parametrize("name", NAMES)
def test_min_reaches_its_floor(name):
    if name == "gpt2":
        pytest.importorskip("transformers")
    report = under(name, "min").report
    assert report["feasible"] is True
    assert report["peak_bytes"]["last"] <= report["floor_bytes"] * 1.001


@pytest.mark.parametrize("name", NAMES)
def test_the_predicted_peak_is_the_measured_one(name):
    if name == "gpt2":
        pytest.importorskip("transformers")
    peaks = under(name, "middle").report["peak_bytes"]
    assert peaks["last"] == pytest.approx(peaks["predicted"], rel=0.001)


def test_max_wraps_nothing_and_measures():
    report = under("gpt", "max").report
    assert report["peak_bytes"]["last"] > 0
    assert all(b["recomputes"] == 0 for b in report["blocks"])
    assert all(b["decision"] != "recompute" for b in report["blocks"])


def test_a_budget_above_the_need_recomputes_nothing():
    done = start("models.py", "gpt", "64G")
    assert_same(plain("gpt"), done)
    assert sum(b["recomputes"] for b in done.report["blocks"]) == 0
    assert done.report["feasible"] is True


@pytest.mark.parametrize("loop", [
    "accumulation", "gan", "sharing", "lazy", "seldom", "named"])
def test_a_budget_holds_in_loops_of_another_shape(loop):
    done = under(loop, "middle", "loops.py", 8)
    assert done.peak <= done.report["budget_bytes"]
    assert done.recomputed() > 0


# ---- a budget that cannot be met -------------------------------------------

def test_a_budget_below_the_floor_is_said_once_and_gets_the_lowest_peak():
    done = under("gpt", NEVER_BELOW)
    report = done.report
    assert report["feasible"] is False
    assert report["floor_bytes"] > report["budget_bytes"]
    assert report["peak_bytes"]["last"] == pytest.approx(
        under("gpt", "min").peak, rel=0.001)
    assert len(said(done, "floor|lowest peak")) == 1


def test_off_unwraps_everything_below_the_floor():
    done = start("models.py", "gpt", NEVER_BELOW, CKPT_ON_INFEASIBLE="off")
    assert_same(plain("gpt"), done)
    assert done.recomputed() == 0
    assert done.peak == under("gpt", "max").peak
    assert len(said(done, "floor|lowest peak")) == 1


def test_raise_stops_the_job_with_a_runtime_error_below_the_floor():
    text = (f"import sys; sys.path.insert(0, {str(job.HERE)!r}); import models\n"
            "sys.argv[1:] = ['gpt']\n"
            "try: models.main()\n"
            "except RuntimeError as error: print('stopped:', error)\n")
    done = job.run(["-c", text], NEVER_BELOW, out=False,
                   CKPT_ON_INFEASIBLE="raise")
    assert done.status == 0
    assert re.match("stopped: .*(floor|lowest peak)", done.stdout)


# ---- values that cannot be read --------------------------------------------

def test_an_unreadable_budget_is_named_in_one_line_and_nothing_else_happens():
    done = under("gpt", "nonsense")
    assert len(done.agent_lines) == 1
    line = done.agent_lines[0]
    assert "CKPT_BUDGET" in line and "nonsense" in line
    assert "8G" in line and "min" in line and "max" in line
    assert done.reports == [] and done.profile is None


@pytest.mark.parametrize("variable", [
    "CKPT_PLANNER", "CKPT_ON_INFEASIBLE", "CKPT_PROOF", "CKPT_ON_MISMATCH",
    "CKPT_BLOCKS", "CKPT_LOG"])
def test_any_other_unreadable_value_leaves_the_job_alone(variable):
    done = start("models.py", "resnet", "min", **{variable: "nonsense:["})
    assert_same(plain("resnet"), done)
    assert len(said(done, variable)) == 1
    assert done.reports == []


# ---- what is said and written ----------------------------------------------

def test_two_lines_are_said_with_a_budget():
    done = under("gpt", "middle")
    assert len(done.agent_lines) == 2
    made, ended = done.agent_lines
    assert "budget" in made and "predicted" in made and "recompute" in made
    assert "peak" in ended and "held" in ended


def test_the_error_level_silences_them():
    done = start("models.py", "resnet", "min", CKPT_LOG="error")
    assert done.stderr == plain("resnet").stderr
    assert_same(plain("resnet"), done)


def test_the_log_goes_to_a_file_if_asked(tmp_path):
    log = tmp_path / "log"
    done = start("models.py", "resnet", "min", CKPT_LOG=f"info:{log}")
    assert done.agent_lines == []
    assert "budget" in log.read_text()


def test_nothing_is_written_without_a_folder(tmp_path):
    left = []
    for agent in (False, True):
        folder = tmp_path / str(agent)
        folder.mkdir()
        done = start("models.py", "resnet", "min", agent=agent, files=False,
                     cwd=folder, TMPDIR=str(folder))
        assert done.status == 0
        left.append(sorted(p.relative_to(folder) for p in folder.rglob("*")))
    assert left[0] == left[1]  # torch itself makes an empty folder


def test_a_disabled_agent_does_nothing():
    done = start("models.py", "resnet", "min", CKPT_DISABLE="1")
    assert_same(plain("resnet"), done)
    assert done.reports == [] and done.stderr == plain("resnet").stderr


@pytest.mark.parametrize("budget", [None, "max", "min", "middle"])
def test_the_run_file_is_as_the_contract_draws_it(budget):
    report = under("gpt", budget).report
    assert list(report) == [
        "format", "version", "pid", "rank", "device", "torch",
        "budget_bytes", "planner", "iterations", "peak_bytes", "floor_bytes",
        "feasible", "kinds", "blocks", "events"]
    assert (report["format"], report["version"]) == ("ckptagent.run", 1)
    assert report["device"] == "cpu" and report["rank"] == 0
    assert report["planner"] == "optimal"
    assert report["iterations"] == STEPS
    assert list(report["peak_bytes"]) == ["first", "last", "max", "predicted"]
    peaks = report["peak_bytes"]
    assert 0 < peaks["last"] <= peaks["max"]
    assert 0 < peaks["first"] <= peaks["max"]
    for kind in report["kinds"]:
        assert list(kind) == ["root", "key", "iterations", "peak_bytes",
                              "predicted_bytes", "floor_bytes"]
    assert {kind["root"] for kind in report["kinds"]} == {"GPT"}
    for block in report["blocks"]:
        assert list(block) == [
            "root", "name", "class", "call", "calls", "decision", "reason",
            "saved_bytes", "boundary_bytes", "forward_ms", "recomputes"]
        assert block["decision"] in ("keep", "recompute", "exclude")
        assert block["reason"] in REASONS
        assert (block["reason"] is None) == (block["decision"] != "exclude")
    for event in report["events"]:
        assert list(event) == ["iteration", "kind", "detail"]
        assert event["kind"] in ("proof", "plan", "over_budget", "mismatch",
                                 "stand_down")


def test_every_block_of_the_gpt_is_a_candidate_and_has_its_costs():
    blocks = under("gpt", "min").report["blocks"]
    assert [b["name"] for b in blocks] == [f"h.{i}" for i in range(12)]
    for block in blocks:
        assert (block["class"], block["call"]) == ("Block", 0)
        assert block["calls"] == STEPS
        assert block["decision"] == "recompute"
        assert block["recomputes"] >= STEPS - 1
        assert block["saved_bytes"] > block["boundary_bytes"] > 0
        assert block["forward_ms"] > 0
    saved = [b["saved_bytes"] for b in blocks]
    assert saved[3] == max(saved)  # the widest of the unequal blocks


def test_a_run_file_is_left_by_a_job_that_raises():
    report = under("failing", "min", "loops.py", 5).report
    assert report["iterations"] == 5


# ---- what is found ---------------------------------------------------------

def test_a_resnet_given_as_stages_ends_with_its_bottlenecks_as_candidates():
    done = under("resnet_stages", "min")
    assert_same(plain("resnet_stages"), done)
    classes = [b["class"] for b in done.report["blocks"]
               if b["decision"] == "recompute"]
    assert "Bottleneck" in classes
    # nested frames would count the same bytes twice
    names = [b["name"] for b in done.report["blocks"]
             if b["decision"] == "recompute"]
    assert not any(other.startswith(name + ".")
                   for name in names for other in names)


def test_stages_come_near_the_floor_of_the_same_blocks_in_one_row():
    staged = under("resnet_stages", "min").peak
    assert staged <= under("resnet", "min").peak * 1.05


def test_evaluation_between_the_steps_belongs_to_no_iteration():
    report = under("evaluation", "min", "loops.py", 8).report
    assert report["iterations"] == 8
    assert all(b["calls"] == 8 for b in report["blocks"])


def test_accumulated_backwards_belong_to_one_iteration():
    report = under("accumulation", "min", "loops.py", 8).report
    assert report["iterations"] == 8


def test_a_module_called_several_times_has_a_decision_for_each_call():
    blocks = under("sharing", "middle", "loops.py", 8).report["blocks"]
    calls = [b["call"] for b in blocks if b["name"] == "h.1"]
    assert calls == [0, 1, 2, 3]
    assert {b["decision"] for b in blocks} == {"keep", "recompute"}


def test_both_models_of_a_gan_are_planned():
    report = under("gan", "min", "loops.py", 8).report
    assert sum(b["decision"] == "recompute" for b in report["blocks"]) >= 12


def test_blocks_can_be_chosen_by_name_and_by_class():
    for blocks, expected in (("re:^h\\.[1-3]$", {"h.1", "h.2", "h.3"}),
                             ("class:Block",
                              {f"h.{i}" for i in range(12)})):
        done = start("models.py", "gpt", "min", CKPT_BLOCKS=blocks)
        assert_same(plain("gpt"), done)
        assert {b["name"] for b in done.report["blocks"]
                if b["decision"] == "recompute"} == expected


# ---- a plan given as a file ------------------------------------------------

def chosen_plan(tmp_path, recompute):
    """The plan of the middle budget, changed to recompute some names."""
    plan = json.loads(under("gpt", "middle").plan)
    for decision in plan["plans"][0]["decisions"]:
        decision["decision"] = (
            "recompute" if decision["name"] in recompute else "keep")
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    return path


@pytest.mark.parametrize("budget", [None, "max"])
def test_a_plan_file_is_applied_as_it_stands(tmp_path, budget):
    path = chosen_plan(tmp_path, {"h.0", "h.7"})
    done = start("models.py", "gpt", budget, CKPT_PLAN=str(path))
    assert_same(plain("gpt"), done)
    assert {b["name"] for b in done.report["blocks"]
            if b["decision"] == "recompute"} == {"h.0", "h.7"}


def test_a_plan_of_another_model_is_refused_in_one_line(tmp_path):
    path = chosen_plan(tmp_path, {"h.0"})
    done = start("models.py", "resnet", None, CKPT_PLAN=str(path))
    assert_same(plain("resnet"), done)
    assert len(done.agent_lines) == 1
    assert done.recomputed() == 0


def test_each_planner_holds_a_budget_that_it_can_hold():
    budget = middle("gpt")
    for planner in ("dynamic_programming", "greedy", "uniform"):
        done = start("models.py", "gpt", budget, CKPT_PLANNER=planner)
        assert_same(plain("gpt"), done)
        assert done.report["planner"] == planner
        assert done.peak <= budget
