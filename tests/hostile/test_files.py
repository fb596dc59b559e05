"""Files from strangers.

That a bad plan or profile is refused by name is in tests/unit/test_plan_json.c,
that bounds on depth and size hold is fuzzed by scripts/fuzz.
"""

import os
import subprocess
import sys

import pytest

from job import ROOT, built

sys.path.insert(0, str(ROOT / "python-sitecustomize"))
from ckptshim import files  # noqa: E402

MOST = 1 << 20


def fault(path):
    with pytest.raises(OSError) as info:
        files.text(str(path), MOST)
    return str(info.value)


def test_a_text_is_read_up_to_its_bound_and_no_further(tmp_path):
    path = tmp_path / "plan"
    path.write_bytes(b"x" * MOST)
    assert files.text(str(path), MOST) == "x" * MOST
    path.write_bytes(b"x" * (MOST + 1))
    assert "more than 1 MiB" in fault(path)
    os.truncate(path, 1 << 40)      # a terabyte of nothing
    assert "more than 1 MiB" in fault(path)


def test_bytes_that_are_no_text_do_not_end_it_early(tmp_path):
    path = tmp_path / "plan"
    path.write_bytes(b"a\xffb")
    assert files.text(str(path), MOST) == "a\udcffb"
    path.write_bytes(b"{}\0more")
    assert "NUL" in fault(path)


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/tty", "fifo", "folder"])
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path, special):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert fault(tmp_path / special)


def test_a_plan_file_names_no_other_file_that_is_opened(tmp_path):
    """A plan whose every text is a path: none of them is touched."""
    trap = tmp_path / "trap"
    os.mkfifo(trap)                 # opening it would wait for ever
    data = ROOT / "tests" / "data"
    plan = (data / "plan.json").read_text() if (data / "plan.json").exists() else (
        data / "plan_of_two_kinds.json").read_text()
    profile = (data / "profile.json").read_text()
    for name, text in (("plan", plan), ("profile", profile)):
        (tmp_path / name).write_text(text.replace('"name": "', f'"name": "{trap}'))
    for arguments in (["validate", "plan", "profile"], ["plan", "profile"],
                      ["report", "."]):
        done = subprocess.run([str(built("ckptagent")), *arguments], cwd=tmp_path,
                              capture_output=True, timeout=60)
        assert done.returncode in (0, 1, 2)
