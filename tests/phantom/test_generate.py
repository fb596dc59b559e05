"""How the phantom is made: tables, ELF files, and making it again."""

import os
import subprocess
import sys

import pytest

import elf
import tables
from conftest import BUILD, build


def test_a_second_build_changes_nothing(phantom):
    before = os.stat(phantom.library)
    made = build("--out", str(BUILD / "phantom"))
    assert made.stdout.strip() == str(phantom.library) and not made.stderr
    assert os.stat(phantom.library) == before


def test_a_torch_without_cuda_is_refused(tmp_path):
    fake = tmp_path / "torch"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "version.py").write_text("__version__ = '2.13.0+cpu'\n"
                                     "cuda: Optional[str] = None\n")
    made = subprocess.run(
        [sys.executable, "-B", str(tables.FUNCTIONS.parent / "generate"),
         "--out", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True,
        text=True, check=False)
    assert made.returncode == 1
    assert made.stderr == f"phantom: {fake}: a torch without CUDA\n"


@pytest.mark.parametrize("lines, message", [
    ("cublas refuse 15", "x.txt:1: no head"),
    ("library libx refuse 1\nxCreate", "x.txt:2: xCreate: no answer"),
    ("library libx refuse 1\nxCreate handle", "x.txt:2: no such answer: handle"),
    ("library libx refuse 1\nxCreate int@0=a b",
     "x.txt:2: no such answer: b"),
    ("library libx refuse 1\nx{A,B} nothing\n\n# more\nxB refuse",
     "x.txt:5: xB: listed twice"),
    ("library libx refuse 1\nx-y nothing", "x.txt:2: x-y: not a name"),
])
def test_a_bad_line_is_named(tmp_path, lines, message):
    path = tmp_path / "x.txt"
    path.write_text(lines)
    with pytest.raises(tables.TableError) as error:
        tables.read(path)
    assert str(error.value) == message


def test_a_table_is_read_as_it_is_described(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text('library libx refuse 7 prefixes x y all\n'
                    'x{Get,Set}{A,} int@2=-1 returns=3\nxText text="a b"\n')
    table = tables.read(path)
    assert (table.name, table.refuse, table.prefixes, table.export_all) == (
        "x", "7", ("x", "y"), True)
    assert list(table.functions) == ["xGetA", "xGet", "xSetA", "xSet", "xText"]
    assert table.functions["xSet"] == [tables.Answer("int", 2, "-1"),
                                       tables.Answer("returns", None, "3")]
    assert table.functions["xText"][0].value == '"a b"'
    assert table.owns("libx.so.3") and not table.owns("libxy.so.3")


def test_an_elf_file_is_read(tmp_path):
    source, library = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text("#include <math.h>\n#include <unistd.h>\n"
                      "extern int elsewhere(void);\n"
                      "double f(double x) { return cbrt(x) + getpid(); }\n"
                      "int g(void) { return elsewhere(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library),
                    "-lm"], check=True)
    needs = elf.needs(str(library))
    assert {"libm.so.6", "libc.so.6"} <= set(needs.libraries)
    imports = {i.name: (i.library, i.version) for i in needs.imports}
    assert imports["cbrt"][0] == "libm.so.6"
    assert imports["cbrt"][1].startswith("GLIBC_")
    assert imports["elsewhere"] == (None, None)
    assert {"f", "g"} <= elf.exports(str(library))


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(99),
                                     b"#!/bin/sh\n" * 20])
def test_what_is_no_library_is_refused(tmp_path, content):
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with pytest.raises(elf.ElfError, match="x.so: "):
        elf.needs(str(path))
