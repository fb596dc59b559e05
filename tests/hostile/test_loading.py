"""Other ways for torch's library to be there, and other libraries beside us.

A libc10 that is loaded with local scope, one without a reporter, and one that
finds the reporter in us are in tests/unit/hosts.sh.
"""

import re
import shutil

import pytest

from job import built
from native import FAKES

NEW = "new 0x5e1f 0x1000 64\n"
DELETE = "delete 0x5e1f 0x1000\n"
ALL = ("alloc", "live", "free", "live")
COUNTED = f"{NEW}scheduled\nlive 64 1 1\n{DELETE}live 0 1 2\n"
NOT_FOUND = ("ckptagent: torch's CPU memory reporter was not found; "
             "standing down\n")
NAMES = {"NEW": "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm",
         "DELETE": "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv"}


@pytest.fixture
def changed(compile_c):
    """A libc10 whose reporter has other names for some functions."""
    def make(**names):
        names = {**NAMES, **names}
        product = re.sub(r"\W", "", "".join(names.values())) + "/libc10.so"
        return compile_c.library(product, "changed.c", flags=[
            f"-D{key}={name}" for key, name in names.items()])
    return make


@pytest.fixture
def other(compile_c):
    return compile_c.library("libother.so", "other.c")


def preloaded(*libraries):
    return ":".join(str(library) for library in libraries)


# ---- torch's library ---------------------------------------------------------


def test_a_renamed_library_is_counted_and_forwarded_to(fakes):
    """As wheels are repaired: with a part of a digest in the name."""
    assert fakes.host(fakes.c10("libc10-5e1f00d5.so"), *ALL) == COUNTED


def test_a_library_with_a_global_scope_is_counted_and_forwarded_to(fakes):
    """The program itself is linked with it: a C++ job."""
    linked = fakes.compile("host_linked", FAKES / "host.c", flags=[
        "-DWITH_PYTHON", "-rdynamic", "-Wl,--no-as-needed",
        fakes.c10(), f"-Wl,-rpath,{fakes.c10().parent}"])
    assert fakes.host(fakes.c10(), *ALL, host=linked) == COUNTED


def test_a_deep_bound_library_is_not_seen_and_runs(fakes, compile_c):
    assert fakes.host(fakes.c10(), host=compile_c("deep", "deep.c")) == NEW + DELETE


def test_other_signatures_are_not_ours(fakes, changed):
    """Whatever an older or a newer torch may call its reporter."""
    older = changed(NEW="_ZN3c1025ProfiledCPUMemoryReporter3NewEPvl",
                    DELETE="_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPvm")
    assert fakes.host(older, *ALL) == NEW + "live 0 0 0\n" + DELETE + "live 0 0 0\n"


def test_allocations_without_releases_are_not_counted_for_ever(fakes, changed):
    half = changed(DELETE="_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPvm")
    assert fakes.host(half, *ALL) == (
        NOT_FOUND + NEW + "live 0 0 0\n" + DELETE + "live 0 0 0\n")


def test_releases_without_allocations_are_only_forwarded(fakes, changed):
    half = changed(NEW="_ZN3c1025ProfiledCPUMemoryReporter3NewEPvl")
    assert fakes.host(half, *ALL) == (
        NEW + "live 0 0 0\n" + NOT_FOUND + DELETE + "live 0 0 0\n")


def test_a_process_that_never_loads_it_is_left_alone(fakes):
    hello = fakes.compile("hello", "hello.c")
    assert fakes.host("", host=hello, CKPT_BUDGET="nonsense") == "hello\n"


# ---- other libraries ---------------------------------------------------------


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_library_on_the_same_functions_sees_them_too(
        fakes, other, ours_first):
    order = [built("libckptagent.so"), other]
    printed = fakes.host(fakes.c10(), *ALL, C10=str(fakes.c10()),
                         preload=preloaded(*order[::1 if ours_first else -1]))
    assert printed.replace("scheduled\n", "") == (
        f"other\n{NEW}live 64 1 1\n{DELETE}live 0 1 2\n")


@pytest.mark.parametrize("name", ["libckptagent.so", "libother-agent.so"])
def test_of_two_copies_the_first_one_works(fakes, tmp_path, name):
    """The functions that the host asks are those of the first."""
    copy = tmp_path / name
    shutil.copy(built("libckptagent.so"), copy)
    assert fakes.host(fakes.c10(), *ALL, preload=preloaded(
        built("libckptagent.so"), copy)) == COUNTED


def test_a_copy_that_is_named_twice_is_one(fakes):
    ours = built("libckptagent.so")
    assert fakes.host(fakes.c10(), *ALL, preload=preloaded(ours, ours)) == COUNTED


def test_a_disabled_agent_forwards(fakes, other):
    printed = fakes.host(fakes.c10(), *ALL, CKPT_DISABLE="1", C10=str(fakes.c10()),
                         preload=preloaded(built("libckptagent.so"), other))
    assert printed == f"other\n{NEW}live 0 0 0\n{DELETE}live 0 0 0\n"
