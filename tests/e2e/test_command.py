"""The command `ckptagent`, as a user meets it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CKPT_BUILD", TOP)).resolve()
DATA = TOP / "tests" / "data"
COMMAND = BUILD / "ckptagent"
LIBRARY = BUILD / "libckptagent.so"

VARIABLES = (
    "BUDGET BLOCKS PLANNER PLAN ON_INFEASIBLE PROOF ON_MISMATCH SPILL OUT TIMING "
    "CACHE TENSORBOARD LOG DISABLE"
).split()


def clean_environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CKPT_")}
    kept.pop("LD_PRELOAD", None)
    return {**kept, **more}


def ckptagent(
    *arguments: str | Path, command: Path = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=clean_environment(**environment),
        timeout=120,
        check=False,
    )


def rows(output: str) -> dict[str, list[str]]:
    """The rows of the planners' table by name, as words."""
    lines = [line.replace("*", " ").split() for line in output.splitlines()]
    return {words[0]: words[1:] for words in lines if words and "_" in words[0]}


def copy_run(folder: Path, pid: int = 4242, **changes: Any) -> Path:
    document = json.loads((DATA / "run.json").read_text())
    document.update(pid=pid, **changes)
    path = folder / f"run.{pid}.json"
    path.write_text(json.dumps(document))
    return path


# ---- as a whole ------------------------------------------------------------


def test_without_arguments_it_says_how_it_is_used() -> None:
    result = ckptagent()
    assert result.returncode == 2
    assert "Usage: ckptagent COMMAND" in result.stderr
    for name in ("run", "plan", "validate", "report", "info"):
        assert f"\n  {name} " in result.stderr


def test_help_and_version_go_to_standard_output() -> None:
    assert ckptagent("--help").stdout.startswith("Usage: ckptagent COMMAND")
    assert ckptagent("--version").stdout.startswith("ckptagent ")


@pytest.mark.parametrize("name", ["run", "plan", "validate", "report", "info"])
def test_each_subcommand_has_its_help(name: str) -> None:
    result = ckptagent(name, "--help")
    assert result.returncode == 0
    assert result.stdout.startswith(f"Usage: ckptagent {name} ")
    assert not result.stderr


def test_an_unknown_subcommand_is_named() -> None:
    result = ckptagent("fly")
    assert result.returncode == 2
    assert result.stderr.startswith('ckptagent: no command is named "fly"\n')


@pytest.mark.parametrize("name", ["run", "plan", "validate", "report", "info"])
def test_an_unknown_option_is_named(name: str) -> None:
    result = ckptagent(name, "--colour")
    assert result.returncode == 2
    assert f"ckptagent {name}: unknown option --colour" in result.stderr


def test_a_full_disk_on_standard_output_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [COMMAND, "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert "standard output" in result.stderr


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_manual_page_formats_without_a_warning() -> None:
    page = TOP / "planner" / "cli" / "ckptagent.1"
    result = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", page],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not result.stderr
    for variable in VARIABLES:
        assert f"CKPT_{variable}" in page.read_text()


# ---- run -------------------------------------------------------------------


def test_run_passes_the_exit_status() -> None:
    assert ckptagent("run", "--", "sh", "-c", "exit 7").returncode == 7


def test_run_passes_a_signal() -> None:
    result = ckptagent("run", "--", "sh", "-c", "kill -TERM $$")
    assert result.returncode == -signal.SIGTERM


def test_run_is_replaced_by_the_job() -> None:
    with subprocess.Popen(
        [COMMAND, "run", "sh", "-c", "echo $$"],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ) as job:
        assert job.stdout is not None
        assert int(job.stdout.read()) == job.pid


def test_run_sets_a_variable_for_each_flag() -> None:
    values = {
        "BUDGET": "8G",
        "BLOCKS": "class:Block",
        "PLANNER": "greedy",
        "PLAN": "plan.json",
        "ON_INFEASIBLE": "off",
        "PROOF": "first",
        "ON_MISMATCH": "warn",
        "SPILL": "/tmp",
        "OUT": "/tmp/out",
        "TIMING": "events",
        "CACHE": "/tmp/cache",
        "TENSORBOARD": "/tmp/board",
        "LOG": "error",
    }
    flags = [
        word
        for name, value in values.items()
        for word in ("--" + name.lower().replace("_", "-"), value)
    ]
    result = ckptagent("run", *flags, "--disable", "--", "env")
    assert result.returncode == 0, result.stderr
    found = dict(
        line.split("=", 1) for line in result.stdout.splitlines() if "=" in line
    )
    assert set(values) | {"DISABLE"} == set(VARIABLES)
    for name, value in values.items():
        assert found[f"CKPT_{name}"] == value
    assert found["CKPT_DISABLE"] == "1"


def test_run_puts_the_library_before_what_is_preloaded() -> None:
    show = ("run", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert ckptagent(*show).stdout.strip() == str(LIBRARY)
    libc = "libc.so.6"
    assert ckptagent(*show, LD_PRELOAD=libc).stdout.strip() == f"{LIBRARY}:{libc}"
    assert ckptagent(*show, LD_PRELOAD=str(LIBRARY)).stdout.strip() == str(LIBRARY)


def test_the_flags_of_the_job_are_its_own() -> None:
    result = ckptagent("run", "echo", "--budget", "never")
    assert result.stdout == "--budget never\n"


@pytest.mark.parametrize(
    ("flag", "value", "accepted"),
    [
        ("--budget", "8X", "a size such as 8G"),
        ("--planner", "best", "optimal, dynamic_programming"),
        ("--proof", "never", "always, sample, first"),
        ("--log", "loud", "error, warning, info, debug"),
    ],
)
def test_run_names_a_bad_value_and_starts_nothing(
    flag: str, value: str, accepted: str
) -> None:
    result = ckptagent("run", flag, value, "--", "echo", "started")
    assert result.returncode == 2
    assert (
        f'ckptagent run: {flag}: "{value}" cannot be read; accepted: {accepted}'
        in result.stderr
    )
    assert not result.stdout


def test_run_needs_a_command_and_flags_their_values() -> None:
    assert "no command to run" in ckptagent("run", "--budget", "8G").stderr
    assert "--budget needs a value" in ckptagent("run", "--budget").stderr


def test_run_leaves_as_a_shell_does_when_it_cannot_start(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    missing = ckptagent("run", tmp_path / "missing")
    assert (missing.returncode, missing.stdout) == (127, "")
    assert f"{tmp_path}/missing: No such file" in missing.stderr
    refused = ckptagent("run", plain)
    assert refused.returncode == 126
    assert f"{plain}: Permission denied" in refused.stderr


def installed(folder: Path) -> Path:
    """The command in a fresh prefix below a folder, and that prefix moved."""
    targets = ["install-binPROGRAMS", "install-execlibPROGRAMS"]
    made = subprocess.run(
        ["make", "-s", "-C", BUILD, *targets, f"DESTDIR={folder}/first"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"make install: {made.stderr.strip()[-200:]}")
    (folder / "first").rename(folder / "moved")
    return next((folder / "moved").rglob("bin/ckptagent"))


def test_a_moved_prefix_finds_its_own_library(tmp_path: Path) -> None:
    command = installed(tmp_path)
    shown = ckptagent(
        "run", "--", "sh", "-c", "echo $LD_PRELOAD", command=command
    ).stdout.strip()
    assert Path(shown).is_file()
    assert Path(shown).is_relative_to(tmp_path / "moved")


def test_a_command_without_its_library_says_so(tmp_path: Path) -> None:
    shutil.copy(COMMAND, tmp_path)
    result = ckptagent("run", "true", command=tmp_path / "ckptagent")
    assert result.returncode == 2
    assert (
        "libckptagent.so is neither beside this command nor in its prefix"
        in result.stderr
    )


def test_a_library_that_ld_preload_cannot_name_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    for name in ("ckptagent", "libckptagent.so"):
        shutil.copy(BUILD / name, folder)
    result = ckptagent("run", "true", command=folder / "ckptagent")
    assert result.returncode == 2
    assert "LD_PRELOAD cannot name a path with a space or a colon" in result.stderr


# ---- plan ------------------------------------------------------------------


def test_plan_shows_every_planner_and_writes_the_chosen_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    result = ckptagent("plan", DATA / "profile.json", "--budget", "43000", "-o", plan)
    assert result.returncode == 0, result.stderr
    assert (
        "peak with everything kept 42.00 KiB, lowest 39.07 KiB, budget 41.99 KiB"
        in result.stdout
    )
    assert rows(result.stdout)["no_checkpoint"][:6] == "42.00 KiB no 0 of 2".split()
    assert rows(result.stdout)["checkpoint_all"][:6] == "39.07 KiB yes 2 of 2".split()
    assert "* optimal" in result.stdout
    assert json.loads(plan.read_text()) == json.loads((DATA / "plan.json").read_text())
    assert ckptagent("validate", plan, DATA / "profile.json").returncode == 0


def test_plan_without_a_file_writes_nothing(tmp_path: Path) -> None:
    result = subprocess.run(
        [COMMAND, "plan", DATA / "profile.json", "--saving", "0.5"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert b"optimal" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_plan_replaces_the_old_one_as_the_umask_says(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("old")
    arguments = ["plan", DATA / "profile.json", "--budget", "min", "--output", plan]
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True, umask=0o027)
    assert stat.S_IMODE(plan.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [plan]
    failed = ckptagent(*arguments[:-1], tmp_path / "missing" / "plan.json")
    assert failed.returncode == 2
    assert f"{tmp_path}/missing/plan.json: No such file" in failed.stderr


def test_a_goal_out_of_reach_is_status_1_and_the_nearest_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    result = ckptagent("plan", DATA / "profile.json", "--budget", "1", "-o", plan)
    assert result.returncode == 1
    entry = json.loads(plan.read_text())["plans"][0]
    assert not entry["feasible"]
    assert entry["predicted_bytes"] == entry["floor_bytes"]


def test_another_planner_and_goal_can_be_chosen(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    ckptagent(
        "plan",
        "--planner",
        "checkpoint_all",
        "--activation-budget",
        "2KiB",
        "-o",
        plan,
        DATA / "profile.json",
    )
    entry = json.loads(plan.read_text())["plans"][0]
    assert (entry["planner"], entry["target"]) == (
        "checkpoint_all",
        "activation_budget",
    )
    assert [d["decision"] for d in entry["decisions"]] == [
        "recompute",
        "recompute",
        "exclude",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs one of --budget, --activation-budget, --saving"),
        (["--budget", "1G", "--saving", "1"], "more than one of --budget"),
        (["--budget", "70%"], '--budget: "70%" cannot be read'),
        (["--budget", "max"], '--budget: "max" cannot be read'),
        (
            ["--saving", "2"],
            '--saving: "2" cannot be read; accepted: a fraction from 0 to 1',
        ),
        (["--activation-budget", "x"], '--activation-budget: "x" cannot be read'),
        (["--budget", "1G", "--planner", "best"], '--planner: "best" is none'),
        (["--budget", "1G", "--kind", "1"], "--kind: 1, but "),
        (["--budget", "1G", "--kind", "x"], '--kind: "x" is not a number from 0'),
        (["--budget"], "--budget needs a value"),
    ],
)
def test_plan_names_a_bad_argument(arguments: list[str], message: str) -> None:
    result = ckptagent("plan", DATA / "profile.json", *arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_bad_profile_is_named_with_its_key() -> None:
    path = DATA / "profile_missing_key.json"
    result = ckptagent("plan", path, "--budget", "1G")
    assert result.returncode == 2
    assert (
        result.stderr
        == f"ckptagent plan: {path}: kinds[0].calls[1].saved_bytes: missing\n"
    )


# ---- validate --------------------------------------------------------------


def test_validate_tells_a_fitting_plan_from_others() -> None:
    fits = ckptagent("validate", DATA / "plan.json", DATA / "profile.json")
    assert (fits.returncode, fits.stderr) == (0, "")
    unfit = DATA / "plan_unfit_other_fingerprint.json"
    other = ckptagent("validate", unfit, DATA / "profile.json")
    assert other.returncode == 1
    assert unfit.with_suffix(".txt").read_text() in other.stderr
    broken = ckptagent(
        "validate", DATA / "plan_unknown_key.json", DATA / "profile.json"
    )
    assert broken.returncode == 2
    missing = ckptagent("validate", DATA / "plan.json", "missing.json")
    assert missing.returncode == 2
    assert "missing.json: No such file" in missing.stderr


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(b"{\0}")
    assert "not a text" in ckptagent("plan", path, "--saving", "1").stderr
    with path.open("wb") as file:
        file.truncate(65 << 20)
    assert "more than 64 MiB" in ckptagent("plan", path, "--saving", "1").stderr


# ---- report ----------------------------------------------------------------


def test_report_shows_peak_holders_blocks_and_events(tmp_path: Path) -> None:
    copy_run(tmp_path)
    for name in ("profile.json", "plan.json"):
        shutil.copy(DATA / name, tmp_path)
    result = ckptagent("report", tmp_path)
    assert "rank 0, pid 4242, cpu, torch 2.13.0+cpu, 120 iterations" in result.stdout
    assert (
        "peak of GPT, GPT(int64[2]): 39.07 KiB in the plan, backward of h.1"
        in result.stdout
    )
    for holder in ("parameters", "gradients", "optimizer state", "buffers"):
        assert f"\n  {holder} " in result.stdout
    assert "between h.1 and the backward of h.1" in result.stdout
    head = next(
        line for line in result.stdout.splitlines() if line.startswith("  head ")
    )
    assert head.split()[4] == "exclude"
    assert head.endswith("  collective")
    assert "h.0: equal" in result.stdout
    for expected in ("NVTX ranges", "layer 0 1 h.0 2.93 KiB 0 B",
                     "everything 7 1000 B 2.00 KiB"):
        assert expected in [" ".join(line.split())
                            for line in result.stdout.splitlines()]
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_report_and_plan_tell_devices_apart(tmp_path: Path) -> None:
    for name in ("run", "profile", "plan"):
        target = "run.4242.json" if name == "run" else f"{name}.json"
        shutil.copy(DATA / f"{name}_of_two_devices.json", tmp_path / target)
    lines = [" ".join(line.split())
             for line in ckptagent("report", tmp_path).stdout.splitlines()]
    at = lines.index("devices")
    assert lines[at + 2:at + 4] == [
        "cuda:0 29.30 KiB 19.53 KiB 29.30 KiB 19.53 KiB 19.53 KiB",
        "cuda:1 42.00 KiB 39.07 KiB 42.00 KiB 39.07 KiB 39.07 KiB"]
    peaks = [line for line in lines if line.startswith("peak of GPT")]
    assert ["cuda:0: 39.07 KiB" in peaks[0], "cuda:1: 42.00 KiB" in peaks[1]] == [
        True, True]
    plan = tmp_path / "new.json"
    result = ckptagent("plan", tmp_path / "profile.json", "--budget", "43000", "-o",
                       plan)
    assert "kind 1: GPT, GPT(int64[2]), cuda:1, 3 calls" in result.stdout
    assert [p["device"] for p in json.loads(plan.read_text())["plans"]] == [
        "cuda:0", "cuda:1"]
    assert ckptagent("validate", plan, tmp_path / "profile.json").returncode == 0
    assert ckptagent("validate", plan, DATA / "profile.json").returncode == 1


def test_report_takes_kept_blocks_from_the_run_without_a_plan(tmp_path: Path) -> None:
    run = json.loads((DATA / "run.json").read_text())
    for block in run["blocks"][:2]:
        block["decision"] = "keep"
    shutil.copy(DATA / "profile.json", tmp_path)
    copy_run(tmp_path, blocks=run["blocks"])
    result = ckptagent("report", tmp_path / "run.4242.json")
    assert "42.00 KiB in the plan" in result.stdout
    assert "\n  kept: h.0 " in result.stdout


def test_a_budget_that_was_not_held_is_status_1(tmp_path: Path) -> None:
    peaks = {"first": 900, "last": 900, "max": 900, "predicted": 900}
    held = copy_run(tmp_path, peak_bytes=peaks, budget_bytes=1000)
    assert ckptagent("report", held).returncode == 0
    over = copy_run(tmp_path, peak_bytes=peaks, budget_bytes=899)
    result = ckptagent("report", over)
    assert result.returncode == 1
    assert "budget 899 B, optimal: not held" in result.stdout
    late = copy_run(tmp_path, peak_bytes=dict(peaks, max=1001), budget_bytes=1000)
    result = ckptagent("report", late)
    assert result.returncode == 0
    assert "optimal: held in the last iteration, not in all" in result.stdout


def test_report_has_a_section_for_each_rank_and_their_spread(tmp_path: Path) -> None:
    for rank, peak in ((2, 3000), (0, 2000), (1, 1000)):
        peaks = {"first": peak, "last": peak, "max": peak, "predicted": None}
        copy_run(tmp_path, pid=100 - rank, rank=rank, peak_bytes=peaks)
    result = ckptagent("report", tmp_path)
    heads = [
        line.split(",")[0]
        for line in result.stdout.splitlines()
        if line.startswith("rank ")
    ]
    assert heads == ["rank 0", "rank 1", "rank 2"]
    assert "3 ranks: highest peaks from 1000 B to 2.93 KiB" in result.stdout
    assert "3 ranks: last peaks from 1000 B to 2.93 KiB" in result.stdout
    assert "every rank recomputes the same blocks" in result.stdout


def test_report_names_blocks_that_only_some_ranks_recompute(tmp_path: Path) -> None:
    blocks = json.loads((DATA / "run.json").read_text())["blocks"]
    for rank, wanted in ((0, ["recompute", "keep"]), (1, ["recompute", "recompute"])):
        for block, decision in zip(blocks, wanted):
            block["decision"] = decision
        copy_run(tmp_path, pid=100 + rank, rank=rank, blocks=blocks)
    lines = ckptagent("report", tmp_path).stdout.splitlines()
    at = lines.index("recomputed on some ranks only:")
    assert lines[at + 1:] == [f"  {blocks[1]['name']}, call 0: on 1"]
    assert [line.split()[-2] for line in lines[at - 4:at - 2]] == ["1", "2"]


def test_report_shows_a_run_without_a_budget(tmp_path: Path) -> None:
    shutil.copy(DATA / "run_without_budget.json", tmp_path / "run.1.json")
    result = ckptagent("report", tmp_path)
    assert result.returncode == 0
    assert "no budget: measured only" in result.stdout


def test_report_names_what_is_missing_or_broken(tmp_path: Path) -> None:
    empty = ckptagent("report", tmp_path)
    assert empty.returncode == 2
    assert f"{tmp_path}: no run.*.json in it" in empty.stderr
    copy_run(tmp_path, colour="red")
    broken = ckptagent("report", tmp_path)
    assert broken.returncode == 2
    assert 'run.4242.json: unknown key "colour"' in broken.stderr


def test_names_from_a_file_do_not_steer_the_terminal(tmp_path: Path) -> None:
    events = [{"iteration": 0, "kind": "proof", "detail": "\x1b[31mred"}]
    copy_run(tmp_path, events=events, torch="2\x1b[2J")
    result = ckptagent("report", tmp_path)
    assert "\x1b" not in result.stdout
    assert "?[31mred" in result.stdout


# ---- info ------------------------------------------------------------------


def test_info_says_what_was_found() -> None:
    result = ckptagent("info", "--python", sys.executable)
    lines = dict(line.split(None, 1) for line in result.stdout.splitlines())
    assert lines["libckptagent.so"] == str(LIBRARY)
    assert lines["libckptplan.so"] == str(BUILD / "libckptplan.so")
    assert lines["python"].startswith(sys.executable)
    if lines["torch"].startswith("not installed"):
        assert result.returncode == 1
        assert lines["hooks"] == "not checked: no torch"
    else:
        assert result.returncode == 0
        assert lines["hooks"].startswith("live: ")


def test_info_names_a_python_that_does_not_run() -> None:
    result = ckptagent("info", "--python", "/nonexistent/python")
    assert result.returncode == 1
    assert "/nonexistent/python: does not run" in result.stdout


def test_info_survives_an_empty_path() -> None:
    result = ckptagent("info", PATH="")
    assert result.returncode == 1
    assert "not found on PATH" in result.stdout
