"""Processes that are confined, privileged, short of memory, or nested."""

import os
import resource
import shutil
import sys

import pytest

from job import HERE as E2E
from job import ROOT, built
from native import output, run

SMALL = 1 << 20


@pytest.fixture
def hello(compile_c):
    return compile_c("hello", "hello.c")


# ---- confined ----------------------------------------------------------------


def test_loading_makes_no_system_call_that_a_sandbox_would_not_expect(
        compile_c, hello, tmp_path):
    sandbox = compile_c("sandbox", "sandbox.c")
    for preload in ("", built("libckptagent.so")):
        done = run([sandbox, hello], preload, CKPT_BUDGET="min",
                   CKPT_LOG=f"info:{tmp_path}/log")
        assert (done.stdout, done.returncode) == ("hello\n", 0)


def test_events_make_no_system_call(fakes, compile_c):
    confined = compile_c.library("confined/libc10.so", "confined.c")
    printed = fakes.host(confined, "alloc")
    assert printed.splitlines()[-1] == "7502"


# ---- privileged --------------------------------------------------------------


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.fixture
def privileged(tmp_path):
    """Makes a set-user-ID copy of a program, in a folder that all may enter."""
    if os.getuid() != 0:
        pytest.skip("only root can make a set-user-ID program of another user")

    def make(program):
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        path = tmp_path / program.name
        shutil.copy(program, path)
        path.chmod(0o4755)
        return path
    return make


def test_a_set_user_id_program_runs_without_the_library(privileged, hello):
    done = run([privileged(hello)], before=as_nobody)
    assert "hello\n" in done.stdout and done.returncode == 0


def test_a_set_user_id_program_that_is_linked_with_it_hears_no_variable(
        privileged, compile_c, tmp_path):
    """Its caller must not choose where it writes."""
    library = tmp_path / "libckptagent.so"
    shutil.copy(built("libckptagent.so"), library)
    program = compile_c("secure", "secure.c", flags=[
        f"-I{ROOT / 'agent'}", library, f"-Wl,-rpath,{library.parent}"])
    assert output([program], "", CKPT_BUDGET="8G") == f"plain {8 << 30}\n"
    done = run([privileged(program)], "", before=as_nobody, CKPT_BUDGET="8G")
    assert (done.stdout, done.returncode) == ("secure unset\n", 0)


# ---- short of something ------------------------------------------------------


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def test_a_program_that_only_just_fits_its_address_space_starts(hello):
    """The library's own needs are far below a megabyte."""
    least = next(n for n in range(SMALL, 64 * SMALL, SMALL // 4) if run(
        [hello], "", before=limit(resource.RLIMIT_AS, n)).returncode == 0)
    done = run([hello], before=limit(resource.RLIMIT_AS, least + SMALL))
    assert (done.stdout, done.returncode) == ("hello\n", 0)


def test_a_ledger_without_room_is_one_line(fakes, compile_c):
    full = compile_c.library("full/libc10.so", "full.c")
    printed = fakes.host(full, "alloc", "live", "alloc")
    assert printed.replace("scheduled\n", "") == (
        "ckptagent: no memory for the ledger; standing down\nfull\nlive 0 0 1\nfull\n")


# ---- nested ------------------------------------------------------------------


def test_programs_within_programs_inherit_the_variables_as_they_were(tmp_path):
    """Shells, env and Pythons, five deep; only the last one prints."""
    inner = "import os; print(*(f'{k}={v}' for k, v in sorted(os.environ.items())" \
            " if k.startswith(('CKPT_', 'LD_'))), sep='\\n')"
    settings = {"CKPT_BUDGET": "70%", "CKPT_LOG": "info:log", "CKPT_OUT": "out"}
    shell = ["bash", "-c", 'exec "$0" -c "$1"', sys.executable]
    chain = f"import os; os.execvp('env', ['env', *{shell!r}, {inner!r}])"
    done = run([*shell, chain],
               cwd=tmp_path, **settings)
    assert done.stdout.splitlines() == [
        *(f"{key}={value}" for key, value in settings.items()),
        f"LD_PRELOAD={built('libckptagent.so')}"]
    assert list(tmp_path.iterdir()) == []


def test_a_job_started_by_a_training_job_has_its_own_report(tmp_path):
    """Both train; each writes under its own process's number."""
    script = E2E / "models.py"
    text = f"""
import runpy, subprocess, sys
command = [sys.executable, {str(script)!r}, "resnet", "--steps", "4"]
sys.path.insert(0, {str(E2E)!r})
sys.argv = command[1:]
runpy.run_path({str(script)!r}, run_name="__main__")
subprocess.run([*command, "--out", "inner.json"], check=True)
"""
    done = run([sys.executable, "-c", text], cwd=tmp_path, CKPT_BUDGET="min",
               CKPT_OUT=str(tmp_path / "out"), CKPT_LOG="error")
    assert done.returncode == 0, done.stdout
    assert len(list(tmp_path.glob("out/run.*.json"))) == 2
