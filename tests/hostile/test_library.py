"""What the built library asks of the process that loads it.

That it needs libc alone and exports exactly its hooks and functions is checked
by tests/unit/exports.sh.
"""

import ctypes.util
import re
import subprocess
import sys

import pytest

from job import built
from native import output, run

OLDEST = (2, 28)    # of glibc


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout


@pytest.fixture(scope="module")
def library():
    return str(built("libckptagent.so"))


@pytest.fixture(scope="module")
def segments(library):
    """(type, flags) of each program header."""
    text = tool("readelf", "-lW", library)
    return re.findall(r"^  ([A-Z_]+) .* ([R ][W ][E ]) 0x", text, re.MULTILINE)


def versions(text):
    """name -> the glibc versions under which `nm -D` shows it."""
    found = {}
    for name, version in re.findall(r"(\w+)@+GLIBC_([\d.]+)", text):
        found.setdefault(name, set()).add(
            tuple(int(part) for part in version.split(".")))
    return found


def libc():
    """The libc that this process has loaded."""
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if re.search(r"/libc[.-][^/]*so", path):
            return path
    raise AssertionError("no libc among the mapped files")


def test_no_function_is_younger_than_the_oldest_glibc(library):
    """One that only moved into libc later has an older version there as well."""
    needed = versions(tool("nm", "-D", "--undefined-only", library))
    there = versions(tool("nm", "-D", "--defined-only", libc()))
    assert "secure_getenv" in needed and "secure_getenv" in there
    young = {name for name, asked in needed.items()
             if min(asked | there.get(name, set())) > OLDEST}
    assert young == set()


def test_the_stack_is_not_executable_and_nothing_is_writable_and_executable(segments):
    assert ("GNU_STACK", "RW ") in segments
    assert [kind for kind, flags in segments if "W" in flags and "E" in flags] == []


def test_what_is_relocated_is_read_only_and_the_text_is_not_relocated(
        library, segments):
    assert "GNU_RELRO" in dict(segments)
    assert "TEXTREL" not in tool("readelf", "-dW", library)


def test_it_has_no_thread_local_storage(segments):
    """A library that is loaded late may find no room for it."""
    assert "TLS" not in dict(segments)


def test_it_brings_no_code_that_runs_at_the_processs_end(library, compile_c):
    """Only the compiler's own: other threads may still be allocating."""
    empty = compile_c.library("empty.so", "hello.c")
    ends = [re.findall(r"FINI_ARRAYSZ\)\s+(\d+)", tool("readelf", "-dW", str(path)))
            for path in (library, empty)]
    assert ends[0] == ends[1] != []


def test_a_process_that_binds_everything_at_once_starts(fakes):
    assert fakes.host(fakes.c10(), "alloc", "live", LD_BIND_NOW="1") == (
        "new 0x5e1f 0x1000 64\nscheduled\nlive 64 1 1\n")


@pytest.mark.parametrize("bind", ["", "1"])
def test_it_can_be_loaded_late_into_a_process_with_many_threads(bind):
    text = f"""
import ctypes, threading
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(200)]
for thread in threads: thread.start()
agent = ctypes.CDLL({str(built("libckptagent.so"))!r})
agent.ckptagent_live.restype = ctypes.c_uint64
late = []
more = threading.Thread(target=lambda: late.append(agent.ckptagent_live(0)))
more.start(), more.join(), end.set()
for thread in threads: thread.join()
print(late, agent.ckptagent_live_hooks())
"""
    done = run([sys.executable, "-c", text], preload="", LD_BIND_NOW=bind)
    assert (done.stdout, done.returncode) == ("[0] 0\n", 0)


def test_a_statically_linked_program_runs(compile_c):
    path = compile_c("static", "hello.c", flags=["-static"])
    assert output([path]) == "hello\n"


def test_find_library_still_works():
    """It starts programs of its own, which inherit the library."""
    text = "import ctypes.util; print(ctypes.util.find_library('c'))"
    assert output([sys.executable, "-c", text]) == f"{ctypes.util.find_library('c')}\n"
