"""Pythons of other kinds, and what a job may have at its start.

-I, -S, -E and the order of the shim's start are in tests/e2e/test_preload.py.
"""

import pathlib
import subprocess
import sys
import sysconfig
import zipapp

import pytest

from job import ROOT, built, environment
from native import HERE, run

TRAIN = """
import sys
sys.path.insert(0, {here!r})
from tiny import Training
training = Training(depth=3)
print([training.step() for _ in range(5)], training.state())
print("recomputed" if "ckptshim.frames" in sys.modules else "alone", file=sys.stderr)
"""
SCRIPT = TRAIN.format(here=str(HERE))


def trained(command, **settings):
    """(standard output, status, lines of standard error)."""
    done = subprocess.run([str(word) for word in command], capture_output=True,
                          text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env=environment(**settings))
    return done.stdout, done.returncode, done.stderr.splitlines()


@pytest.fixture(scope="module")
def plain():
    out, status, lines = trained([sys.executable, "-c", SCRIPT])
    assert (status, lines) == (0, ["alone"])
    return out


def under(command, **settings):
    return trained(command, CKPT_BUDGET="min", CKPT_LOG="error",
                   LD_PRELOAD=str(built("libckptagent.so")), **settings)


def test_a_sitecustomize_of_the_jobs_own_is_run_once_and_stays(tmp_path, plain):
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    script = SCRIPT + "import sitecustomize; print(sitecustomize.__file__)"
    out, status, lines = under([sys.executable, "-c", script],
                               PYTHONPATH=str(tmp_path))
    assert out == f"customized\n{plain}{tmp_path}/sitecustomize.py\n"
    assert (status, lines) == (0, ["recomputed"])


def test_the_shims_sitecustomize_on_the_path_runs_the_one_that_it_hides(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    path = f"{ROOT / 'python-sitecustomize'}:{tmp_path}"
    script = "import sitecustomize; print(sitecustomize.__file__)"
    for options in ([], ["-X", "dev"]):
        done = trained([sys.executable, *options, "-c", script], PYTHONPATH=path)
        assert done == (f"customized\n{tmp_path}/sitecustomize.py\n", 0, [])
    done = trained([sys.executable, "-c", "import sitecustomize"],
                   PYTHONPATH=str(ROOT / "python-sitecustomize"))
    assert done == ("", 0, [])


def test_a_zipped_application_trains(tmp_path, plain):
    source = tmp_path / "source"
    source.mkdir()
    (source / "__main__.py").write_text(SCRIPT)
    zipapp.create_archive(source, tmp_path / "job.pyz")
    assert under([sys.executable, "-I", tmp_path / "job.pyz"]) == (
        plain, 0, ["recomputed"])


def test_a_python_without_ctypes_is_one_line(plain):
    """torch itself needs it, so it goes after torch has come."""
    gone = "for name in ('ctypes', '_ctypes'): sys.modules[name] = None\n"
    script = SCRIPT.replace("training =", gone + "training =", 1)
    out, status, lines = under([sys.executable, "-c", script])
    assert (out, status) == (plain, 0)
    assert len(lines) == 2 and lines[1] == "alone"
    assert lines[0].startswith("ckptagent: the shim did not start: ")
    assert "ctypes" in lines[0]


# ---- Python inside another program -------------------------------------------


@pytest.fixture(scope="module")
def embedded(compile_c):
    """A program with Python inside, as this interpreter's library has it."""
    name = sysconfig.get_config_var("INSTSONAME")
    library = pathlib.Path(sysconfig.get_config_var("LIBDIR"), name)
    if not (library.exists() and ".so" in name):
        pytest.skip("this Python has no shared library to put into a program")
    return compile_c("embedded", "embedded.c", flags=[
        library, f"-Wl,-rpath,{library.parent}"])


@pytest.mark.parametrize("way", ["embedded", "frozen"])
def test_an_embedded_and_a_frozen_python_train(embedded, tmp_path, plain, way):
    """Frozen: the program holds the job's code as a module."""
    job = tmp_path / "job.py"
    job.write_text(SCRIPT)
    paths = ":".join(path for path in sys.path if path)
    assert under([embedded, way, job], PYTHONPATH=paths) == (plain, 0, ["recomputed"])


def test_an_embedded_python_that_ends_and_starts_again_runs_on(embedded, tmp_path):
    job = tmp_path / "job.py"
    job.write_text("import torch; print(int(torch.ones(3).sum()))")
    paths = ":".join(path for path in sys.path if path)
    done = run([embedded, "twice", job], PYTHONPATH=paths, CKPT_BUDGET="min")
    assert (done.stdout.splitlines()[0], done.returncode) == ("3", 0)


# ---- torchrun ----------------------------------------------------------------


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
            "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
# Each with how many processes train.
LAUNCHERS = {
    "torchrun": (2, TORCHRUN),
    "accelerate": (1, [sys.executable, "-m", "accelerate.commands.launch", "--cpu",
                       "--num_processes=1", "--num_machines=1",
                       "--mixed_precision=no", "--dynamo_backend=no",
                       "--num_cpu_threads_per_process=1"]),
    # As mpirun does it: processes with the launcher's environment and some more.
    "a shell": (2, ["bash", "-c", "for RANK in 0 1; do export RANK; \"$0\" \"$1\" & "
                    "done; wait", sys.executable]),
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("how", ["preloaded", "ckptagent run"])
def test_a_launcher_that_never_trains_writes_no_report(tmp_path, plain, how, launcher):
    """One file a rank, none of the launcher's."""
    if launcher == "accelerate":
        pytest.importorskip("accelerate")
    (tmp_path / "job.py").write_text(
        "import os, sys; sys.stdout = open(f'{os.getpid()}.rank', 'w')" + SCRIPT)
    processes, words = LAUNCHERS[launcher]
    launch = [*words, tmp_path / "job.py"]
    if how == "preloaded":
        done = run(launch, cwd=tmp_path, CKPT_BUDGET="min",
                   CKPT_OUT=str(tmp_path / "out"))
    else:
        done = run([built("ckptagent"), "run", "--budget", "min", "--out",
                    tmp_path / "out", "--", *launch], preload="", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    ranks = {path.stem: path.read_text() for path in tmp_path.glob("*.rank")}
    reports = sorted(path.stem[4:] for path in tmp_path.glob("out/run.*.json"))
    assert reports == sorted(ranks)
    assert [*ranks.values()] == [plain] * processes


INTERRUPTED = """
import signal, sys

class Timeout(Exception):
    pass

def handler(*_):
    raise {raised}

class Finder:
    def find_spec(name, path=None, target=None):
        if name == "ckptshim.{module}":
            sys.meta_path.remove(Finder)
            signal.raise_signal(signal.SIGUSR1)

signal.signal(signal.SIGUSR1, handler)
sys.meta_path.insert(0, Finder)
try:
    import torch
    for _ in range(100):
        torch.zeros(1)
    print("not raised")
except Timeout:
    print("raised")
"""


@pytest.mark.parametrize("module", ["boot", "interrupts", "steps"])
def test_what_a_handler_raises_in_the_start_of_the_shim_is_the_jobs(module, plain):
    script = INTERRUPTED.format(module=module, raised="Timeout()")
    out, status, lines = under([sys.executable, "-c", script + SCRIPT])
    assert (out, status, len(lines)) == (f"raised\n{plain}", 0, 2)
    assert "the shim did not start: Timeout()" in lines[0]


def test_a_handler_that_exits_in_the_start_of_the_shim_ends_the_job():
    script = INTERRUPTED.format(module="steps", raised="SystemExit(7)")
    out, status, lines = under([sys.executable, "-c", script + SCRIPT])
    assert (out, status) == ("", 7)
