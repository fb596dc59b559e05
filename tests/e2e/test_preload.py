"""The preloaded library in real processes, with shims of the tests' own.

The library looks for its Python files beside itself, so a copy of it with
another ``python-sitecustomize`` runs whatever a test wants run.
"""

import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

from job import BUILD, built, environment

DATA = pathlib.Path(__file__).resolve().parents[1] / "data" / "settings"

# What every job below begins with. The library's functions are called as the
# shim calls them.
PRELUDE = """
import ctypes, os, sys, threading, time

def load(path):
    library = ctypes.CDLL(path)
    for name in ("live", "peak", "block_live"):
        getattr(library, "ckptagent_" + name).restype = ctypes.c_uint64
    for name in ("events", "unknown_frees"):
        getattr(library, "ckptagent_" + name).restype = ctypes.c_uint64
    library.ckptagent_setting.restype = ctypes.c_char_p
    return library

agent = load(os.environ["TEST_LIBRARY"])
"""

SILENT = "pass"
MARK = "import sys; sys.ckpt_started = getattr(sys, 'ckpt_started', 0) + 1"


class Prefix:
    """A copy of the library with a shim of its own beside it."""

    def __init__(self, folder, shim):
        self.folder = folder
        self.library = folder / "libckptagent.so"
        shutil.copy(built("libckptagent.so"), self.library)
        (folder / "python-sitecustomize").mkdir()
        self.sitecustomize = folder / "python-sitecustomize" / "sitecustomize.py"
        self.sitecustomize.write_text(textwrap.dedent(shim))

    def command(self, command, preload=None, **settings):
        variables = environment(TEST_LIBRARY=str(self.library), **settings)
        variables["LD_PRELOAD"] = str(preload or self.library)
        return subprocess.run(command, env=variables, cwd=self.folder, timeout=120,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)

    def python(self, script, *options, preload=None, **settings):
        file = self.folder / "job.py"
        file.write_text(PRELUDE + textwrap.dedent(script))
        return self.command([sys.executable, *options, str(file)], preload,
                            **settings)


@pytest.fixture
def prefix(tmp_path):
    def make(shim=SILENT):
        return Prefix(tmp_path, shim)
    return make


def assert_silent_success(done, stdout=""):
    assert (done.stderr, done.stdout, done.returncode) == ("", stdout, 0)


# ---- the ledger on real torch ------------------------------------------------


def test_live_and_peak_bytes_are_those_of_the_tensors(prefix):
    done = prefix().python("""
        import torch
        keep = torch.ones(3)
        assert agent.ckptagent_live_hooks() == 1
        base = agent.ckptagent_live(0)
        assert base >= 12
        a = torch.empty(1000, 1000)
        assert agent.ckptagent_live(0) - base == 4_000_000
        agent.ckptagent_peak_reset(0)
        b = torch.empty(500, dtype=torch.float64)
        view = a[3:]
        assert agent.ckptagent_live(0) - base == 4_004_000
        del b
        assert agent.ckptagent_live(0) - base == 4_000_000
        assert agent.ckptagent_peak(0) - base == 4_004_000
        del a
        assert agent.ckptagent_live(0) - base == 4_000_000
        addresses = (ctypes.c_uint64 * 3)(view.untyped_storage().data_ptr(), 1, 0)
        sizes = (ctypes.c_uint64 * 3)()
        agent.ckptagent_sizes(ctypes.c_size_t(3), addresses, sizes)
        assert list(sizes) == [4_000_000, 0, 0]
        del view
        assert agent.ckptagent_live(0) == base
        assert agent.ckptagent_unknown_frees() == 0
        assert agent.ckptagent_live(1) == agent.ckptagent_live(-1) == 0
    """)
    assert_silent_success(done)


def test_a_block_owns_the_tensors_of_all_threads_while_it_is_set(prefix):
    done = prefix().python("""
        import torch
        agent.ckptagent_block(7)
        made = []
        make = lambda: made.append(torch.empty(100, dtype=torch.uint8))
        threads = [threading.Thread(target=make) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert agent.ckptagent_block(0) == 7
        make()
        assert agent.ckptagent_block_live(7) == 400
        made.clear()
        assert agent.ckptagent_block_live(7) == 0
    """)
    assert_silent_success(done)


def test_a_tape_has_the_peaks_between_marks_and_late_frees(prefix):
    done = prefix().python("""
        import torch
        keep = torch.empty(0, dtype=torch.uint8)
        class Segment(ctypes.Structure):
            _fields_ = [("mark", ctypes.c_uint32), ("call", ctypes.c_int32),
                        ("live", ctypes.c_uint64), ("peak", ctypes.c_uint64)]
        new = lambda n: torch.empty(n, dtype=torch.uint8)
        base = agent.ckptagent_live(0)
        agent.ckptagent_tape_begin(0)
        saved = new(1000)
        ids = (ctypes.c_int32 * 1)()
        agent.ckptagent_watch(ctypes.c_size_t(1),
                              (ctypes.c_uint64 * 1)(saved.data_ptr()), ids)
        assert ids[0] == 0
        assert agent.ckptagent_mark(ord("F"), 0) == 1
        new(500)
        assert agent.ckptagent_mark(ord("D"), 0) == 2
        del saved
        other = new(10)
        agent.ckptagent_tape_end()
        segments = (Segment * 9)()
        assert agent.ckptagent_segments(segments, ctypes.c_size_t(9)) == 5
        assert [(chr(s.mark), s.live - base, s.peak - base)
                for s in segments[:5]] == [
            ("S", 0, 1000), ("F", 1000, 1500), ("D", 1000, 1000),
            ("X", 0, 10), ("Z", 10, 10)]
        assert not agent.ckptagent_tape_full()
    """)
    assert_silent_success(done)


def test_the_ledger_is_exact_under_many_threads(prefix):
    done = prefix().python("""
        import torch
        torch.ones(64, 64) @ torch.ones(64, 64)
        base = agent.ckptagent_live(0)
        def work():
            w = torch.ones(64, 64, requires_grad=True)
            for _ in range(100):
                ((w @ w).relu() @ w).sum().backward()
        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
        import gc; gc.collect()
        assert agent.ckptagent_live(0) == base
        assert agent.ckptagent_unknown_frees() == 0
    """)
    assert_silent_success(done)


# ---- the start of the shim ---------------------------------------------------


def test_the_shim_starts_before_the_next_statement_and_once(prefix):
    here = prefix("""
        import sys, torch
        assert not torch.__spec__._initializing
        sys.ckpt_started = getattr(sys, "ckpt_started", 0) + 1
        sys.ckpt_names = (__file__, __ckptagent_library__, __name__)
    """)
    done = here.python("""
        import torch
        x = torch.ones(3)
        assert sys.ckpt_started == 1
        for _ in range(100): x = x + 1
        assert sys.ckpt_started == 1
        print(*sys.ckpt_names, sep="\\n")
    """)
    assert_silent_success(done, f"{here.sitecustomize}\n{here.library}\n"
                                "ckptagent_sitecustomize\n")


@pytest.mark.parametrize("options", [("-I", "-S", "-E"), ("-X", "dev", "-B")])
def test_it_starts_whatever_options_python_has(prefix, options):
    script = "sys.path[:0] = {}\nimport torch\ntorch.ones(3)\nprint(sys.ckpt_started)"
    done = prefix(MARK).python(script.format(sys.path), *options)
    assert_silent_success(done, "1\n")


def test_a_relative_preload_holds_after_a_change_of_folder(prefix):
    done = prefix(MARK).python("""
        os.chdir("/")
        import torch
        torch.ones(3)
        print(sys.ckpt_started)
    """, preload="./libckptagent.so")
    assert_silent_success(done, "1\n")


def test_a_linked_library_finds_the_files_beside_the_real_one(prefix):
    here = prefix(MARK)
    (here.folder / "elsewhere").mkdir()
    link = here.folder / "elsewhere" / "libckptagent.so"
    link.symlink_to(here.library)
    done = here.python("import torch; torch.ones(3); print(sys.ckpt_started)",
                       preload=link)
    assert_silent_success(done, "1\n")


def test_it_waits_until_torch_is_imported(prefix):
    done = prefix(MARK).python("""
        import torch
        torch.__spec__._initializing = True
        torch.ones(3)
        assert not hasattr(sys, "ckpt_started")
        torch.__spec__._initializing = False
        torch.ones(3)
        print(sys.ckpt_started)
    """)
    assert_silent_success(done, "1\n")


def test_a_shim_that_asks_for_it_is_run_again(prefix):
    done = prefix(MARK + "\nckptagent_again = sys.ckpt_started < 3").python("""
        import torch
        for _ in range(9): torch.ones(3)
        print(sys.ckpt_started)
    """)
    assert_silent_success(done, "3\n")


def test_it_starts_although_the_main_thread_is_blocked(prefix):
    done = prefix("import sys, threading; sys.ckpt_thread = threading.get_ident()"
                  ).python("""
        import torch
        def work():
            time.sleep(0.3)  # until the main thread sits in join()
            end = time.monotonic() + 20
            while not hasattr(sys, "ckpt_thread") and time.monotonic() < end:
                torch.ones(3)
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert sys.ckpt_thread not in (worker.ident, threading.main_thread().ident)
    """)
    assert_silent_success(done)


def test_an_error_of_the_shim_is_one_line_and_the_job_goes_on(prefix):
    done = prefix(r"raise ValueError('this\nand that')").python("""
        import torch
        print(int(torch.ones(3).sum() + torch.ones(3).sum()))
        sys.exit(5)
    """)
    assert done.stderr == ("ckptagent: the shim did not start: "
                           r"ValueError('this\nand that')" "\n")
    assert (done.stdout, done.returncode) == ("6\n", 5)


def test_an_exit_inside_the_shim_does_not_end_the_job(prefix):
    done = prefix("import sys; sys.exit(3)").python(
        "import torch; torch.ones(3); print('on')")
    assert done.stderr == "ckptagent: the shim did not start: SystemExit(3)\n"
    assert (done.stdout, done.returncode) == ("on\n", 0)


def test_an_interrupt_during_the_start_reaches_the_job(prefix):
    done = prefix("""
        import os, signal, sys, time
        os.kill(os.getpid(), signal.SIGINT)
        end = time.monotonic() + 10     # another thread may be given the signal
        while time.monotonic() < end: pass
        sys.ckpt_started = 1
    """).python("""
        import signal, torch
        # A shell's background job starts with interrupts ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            torch.ones(3)
            time.sleep(20)
        except KeyboardInterrupt:
            print(hasattr(sys, "ckpt_started"))
    """)
    assert done.stderr == ("ckptagent: the shim did not start: "
                           "KeyboardInterrupt()\n")
    assert (done.stdout, done.returncode) == ("False\n", 0)


def test_a_missing_shim_is_one_line(prefix):
    here = prefix()
    here.sitecustomize.unlink()
    done = here.python("import torch; torch.ones(3); torch.ones(3)")
    assert done.returncode == 0
    assert done.stderr == ("ckptagent: sitecustomize.py was not found beside the "
                           "library or in its data folder; standing down\n")


# ---- forks -------------------------------------------------------------------


def test_a_forked_child_keeps_its_count_and_does_not_start_again(prefix):
    done = prefix(MARK).python("""
        import torch
        x = torch.ones(1000)
        base = agent.ckptagent_live(0)
        child = os.fork()
        if child == 0:
            y = torch.ones(1000)
            ok = (agent.ckptagent_live(0) == base + 4000 and sys.ckpt_started == 1
                  and agent.ckptagent_mark(ord("F"), 0) == -1)
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert agent.ckptagent_live(0) == base
    """)
    assert_silent_success(done)


def test_a_tape_does_not_go_on_in_a_forked_child(prefix):
    done = prefix().python("""
        import torch
        torch.ones(3)
        agent.ckptagent_tape_begin(0)
        child = os.fork()
        if child == 0:
            os._exit(agent.ckptagent_mark(ord("F"), 0) != -1)
        assert os.waitpid(child, 0)[1] == 0
        assert agent.ckptagent_mark(ord("F"), 0) == 1
    """)
    assert_silent_success(done)


def test_a_child_forked_before_the_start_makes_its_own(prefix):
    done = prefix(MARK).python("""
        import torch
        status = []
        def work():
            time.sleep(0.3)  # until the main thread sits in join()
            torch.ones(3)    # schedules the start
            child = os.fork()
            if child == 0:
                for _ in range(10000): pass
                late = hasattr(sys, "ckpt_started")
                torch.ones(3)
                for _ in range(10000): pass
                os._exit(10 * late + getattr(sys, "ckpt_started", 0))
            status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        print(status, sys.ckpt_started)
    """)
    assert_silent_success(done, "[1] 1\n")


def test_loader_workers_run_and_are_silent(prefix):
    here = prefix("import os; open('started', 'a').write(f'{os.getpid()}\\n')")
    done = here.python("""
        import torch
        data = torch.utils.data.TensorDataset(torch.arange(64.0))
        total = 0.0
        for batch, in torch.utils.data.DataLoader(data, 8, num_workers=2):
            total += float(batch.sum())
        print(int(total))
    """)
    assert_silent_success(done, "2016\n")
    assert len((here.folder / "started").read_text().split()) == 1


# ---- staying out -------------------------------------------------------------


@pytest.mark.parametrize("command", [
    ["/bin/true"], ["bash", "-c", "true | cat"], ["git", "--version"],
    [sys.executable, "-c", "import json"]], ids=lambda c: pathlib.Path(c[0]).name)
def test_a_process_without_torch_is_left_alone(prefix, command):
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]}")
    done = prefix("raise ValueError").command(command, CKPT_BUDGET="nonsense")
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_disabled_agent_does_nothing(prefix):
    done = prefix("raise ValueError").python("""
        import torch
        x = torch.ones(3)
        assert agent.ckptagent_live(0) == agent.ckptagent_events() == 0
        assert agent.ckptagent_live_hooks() == 0
    """, CKPT_DISABLE="1", CKPT_BUDGET="nonsense")
    assert_silent_success(done)


def test_a_bad_value_is_one_line_and_the_job_runs_untouched(prefix):
    # On standard error, whatever CKPT_LOG says of the level and the file.
    case = dict(line.split("=", 1) for line in
                (DATA / "several.env").read_text().splitlines())
    message = (DATA / "several.message").read_text().splitlines()
    here = prefix("raise ValueError")
    done = here.command(["bash", "-c", f"""
        true; git --version >/dev/null 2>&1
        {sys.executable} -c '
import sys, torch
print(int(torch.ones(3).sum() + torch.ones(3).sum()))
sys.exit(7)'
        """], **case, CKPT_LOG="error:log")
    assert done.stderr.splitlines() == ["ckptagent: " + line for line in message]
    assert (done.stdout, done.returncode) == ("6\n", 7)
    assert not (here.folder / "log").exists()


def test_what_is_not_yet_there_is_said_and_the_agent_works(prefix):
    done = prefix(MARK).python(
        "import torch; torch.ones(3); print(sys.ckpt_started)", CKPT_CACHE="/tmp/c")
    assert done.stderr == "ckptagent: CKPT_CACHE: not yet, ignored\n"
    assert done.stdout == "1\n"


def test_a_closed_standard_error_changes_nothing(prefix):
    here = prefix("raise ValueError")
    done = here.command(["bash", "-c", f"""
        {sys.executable} -c 'import torch; print(int(torch.ones(3).sum()))' 2>&-
        """], CKPT_BUDGET="8Q")
    assert (done.stdout, done.returncode) == ("3\n", 0)


def test_settings_and_log_are_what_the_variables_say(prefix):
    here = prefix()
    done = here.python("""
        os.chdir("/")
        import torch
        torch.ones(3)
        get = lambda name: agent.ckptagent_setting(name).decode()
        memory = int(get(b"device_memory"))
        assert 0 < memory <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert int(get(b"budget")) == memory * 7 // 10
        assert get(b"planner") == "greedy"
        assert get(b"spill") == "/var/tmp" and get(b"out") == ""
        assert agent.ckptagent_setting(b"nonsense") is None
        agent.ckptagent_log(b"info", b"hello")
        agent.ckptagent_log(b"debug", b"not this")
    """, CKPT_BUDGET="70%", CKPT_PLANNER="greedy", CKPT_LOG="info:log")
    assert_silent_success(done)
    assert (here.folder / "log").read_text() == "ckptagent: hello\n"


def test_the_ranks_of_a_machine_share_its_memory(prefix):
    script = """
        import torch
        torch.ones(3)
        print(agent.ckptagent_setting(b"device_memory").decode())
    """
    here = prefix()
    whole = int(here.python(script).stdout)
    assert int(here.python(script, LOCAL_WORLD_SIZE="4").stdout) == whole // 4


# ---- installed ---------------------------------------------------------------


def test_an_installed_prefix_works_after_it_was_moved(prefix, tmp_path):
    if not (BUILD / "Makefile").exists():
        pytest.skip("not a build folder")
    stage = tmp_path / "stage"
    subprocess.run(["make", "-C", str(BUILD), "install", f"DESTDIR={stage}"],
                   check=True, capture_output=True)
    library, = stage.rglob("libckptagent.so")
    shim, = stage.rglob("ckptagent/python/sitecustomize.py")
    assert (shim.parent / "ckptshim" / "__init__.py").exists()
    shim.write_text(MARK)
    moved = stage.rename(tmp_path / "moved")
    done = prefix("raise ValueError").python(
        "import torch; torch.ones(3); print(sys.ckpt_started)",
        preload=moved / library.relative_to(tmp_path / "stage"))
    assert_silent_success(done, "1\n")
