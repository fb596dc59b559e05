"""The agent's hooks in the middle of forks, signals and births of threads.

That a tape does not go on in a child, and that the ledger is exact under many
threads, is in tests/e2e/test_preload.py and tests/unit/test_threads.c.
"""

import pytest

from native import FAKES


@pytest.fixture(scope="module")
def storm(compile_c, fakes):
    library = compile_c.library("storm/libc10.so", "storm.c",
                                flags=[f"-I{FAKES}", "-lpthread"])

    def run(what, **settings):
        """What is printed, but for how often a start was scheduled."""
        printed = fakes.host(library, "alloc", STORM=what, **settings)
        return [line for line in printed.splitlines()
                if line not in ("scheduled", "fallback")]
    return run


@pytest.mark.parametrize("what", ["forks", "double", "births"])
def test_children_and_threads_born_in_a_storm_count_right(storm, what):
    assert storm(what) == [f"{what}: 0 wrong, no signals, live 64"]


def test_a_child_by_vfork_becomes_another_program(storm, compile_c):
    hello = compile_c("hello", "hello.c")
    assert storm("execs", EXEC=str(hello)) == (
        100 * ["hello"] + ["execs: 0 wrong, no signals, live 64"])


def test_signals_may_come_at_any_moment_and_their_handlers_fork(storm):
    assert storm("signals") == ["signals: 0 wrong, many signals, live 64"]
