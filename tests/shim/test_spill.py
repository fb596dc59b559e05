"""A spill that cannot be written means "keep"; nothing of it is ever left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ckptshim import spill
from ckptshim.spill import Spill

FOLDER = Path(spill.__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if spill.file_system(str(tmp_path)) in spill._MEMORY_FILE_SYSTEMS:
        pytest.skip("the temporary folder is on a memory file system")
    return tmp_path


def full_after(written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full once so many bytes were written."""
    real, left = os.pwrite, [written]

    def pwrite(file: int, data: Any, offset: int) -> int:
        size = min(len(data), left[0])
        if not size:
            raise OSError(28, "No space left on device")
        left[0] -= size
        return real(file, data[:size], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)


def test_a_disk_that_fills_halfway_keeps_everything(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    store = Spill(str(folder), 1 << 30, said.append)
    first = store.write([torch.arange(100.0)])
    full_after(6000, monkeypatch)
    originals = [torch.ones(1000), torch.ones(1000)]
    assert store.write(originals) is None       # the second does not fit
    assert len(said) == 1 and "No space left" in said[0]
    assert store.write([torch.ones(1)]) is None and len(said) == 1
    assert store._used == 400
    assert first is not None
    assert torch.equal(first[0].look({}), torch.arange(100.0))
    assert torch.equal(first[0].restore({}), torch.arange(100.0))


def test_a_short_write_is_continued(folder: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda f, data, at: real(f, data[:700], at))
    moved = Spill(str(folder), 1 << 30, pytest.fail).write([torch.arange(1000.0)])
    assert moved is not None and torch.equal(moved[0].look({}), torch.arange(1000.0))


@pytest.mark.parametrize("how", ["missing", "a file", "not writable", "gone later"])
def test_a_folder_that_cannot_be_used_is_said_once(how: str, folder: Path) -> None:
    place = folder / "spill"
    if how == "a file":
        place.write_text("")
    elif how != "missing":
        place.mkdir(0o755 if how == "gone later" else 0o555)
    if how == "not writable" and os.access(place, os.W_OK):
        pytest.skip("this user may write everywhere")
    said: list[str] = []
    store = Spill(str(place), 1 << 30, said.append)
    if how == "gone later":
        assert store.write([torch.ones(3)]) is not None
        place.rmdir()                           # the file is unlinked already
        assert store.write([torch.ones(3)]) is not None and not said
        return
    assert store.write([torch.ones(3)]) is None
    assert store.write([torch.ones(3)]) is None
    assert len(said) == 1


def start(folder: Path, then: str) -> subprocess.Popen[str]:
    """A process that spills and goes on with then; its line says how much."""
    return subprocess.Popen(
        [sys.executable, "-c", f"""if True:
        import os, signal, sys, time, torch
        sys.path.insert(0, {str(FOLDER)!r})
        from ckptshim.spill import Spill
        store = Spill({str(folder)!r}, 1 << 30, print)
        moved = store.write([torch.ones(300000)])
        print(store.written, flush=True)
        {then}"""], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("then", [
    "time.sleep(60)", "os._exit(3)", "sys.exit(0)", "raise ValueError",
    "os.kill(os.getpid(), signal.SIGSEGV)"])
def test_nothing_is_left_however_the_process_ends(then: str, folder: Path) -> None:
    process = start(folder, then)
    assert process.stdout is not None
    assert process.stdout.readline() == "1200000\n"
    if "sleep" in then:
        assert list(folder.iterdir()) == []     # not even while it runs
        process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert list(folder.iterdir()) == []


def test_a_limit_on_file_sizes_means_keep(folder: Path) -> None:
    """SIGXFSZ is ignored by Python: the write fails instead."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    said: list[str] = []
    resource.setrlimit(resource.RLIMIT_FSIZE, (50000, limit[1]))
    try:
        store = Spill(str(folder), 1 << 30, said.append)
        assert store.write([torch.ones(100000)]) is None and len(said) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
