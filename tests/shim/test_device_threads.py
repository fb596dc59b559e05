"""The end of a process waits for autograd's device threads, and not for ever."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Iterator

import pytest

from ckptshim import device_threads


class Thread:
    """A thread with a name of autograd's that works until told to wait."""

    def __init__(self) -> None:
        self.busy = True
        self.over = threading.Event()
        self._named = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._named.wait()

    def _run(self) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(
            "pt_autograd_0")
        self._named.set()
        while self.busy:
            pass
        self.over.wait()

    def end(self) -> None:
        self.busy = False
        self.over.set()
        self._thread.join()


@pytest.fixture
def thread() -> Iterator[Thread]:
    made = Thread()
    yield made
    made.end()


def stop_later(thread: Thread, seconds: float) -> None:
    def stop() -> None:
        thread.busy = False
    threading.Timer(seconds, stop).start()


def test_it_waits_until_they_are_done(thread: Thread) -> None:
    stop_later(thread, 0.2)
    assert device_threads.settle(limit=60)
    assert not thread.busy


def test_it_does_not_wait_for_ever(thread: Thread) -> None:
    begin = time.monotonic()
    assert not device_threads.settle(limit=0.2)
    assert time.monotonic() - begin >= 0.2


def test_a_thread_that_waits_for_work_is_done(thread: Thread) -> None:
    thread.busy = False
    assert device_threads.settle(limit=60)


def test_without_such_threads_nothing_is_waited_for(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
    assert device_threads.settle()
