"""A function that nobody has reviewed, at build time and at run time."""

import shutil
from pathlib import Path

import pytest

import tables
from conftest import Phantom, build


@pytest.fixture(scope="module")
def fewer(tmp_path_factory):
    """The tables without cuFFT's plan."""
    folder = tmp_path_factory.mktemp("tables") / "functions"
    shutil.copytree(tables.FUNCTIONS, folder)
    table = folder / "cufft.txt"
    table.write_text("".join(line for line in table.open()
                             if "cufftXtMakePlanMany" not in line))
    return folder


@pytest.fixture(scope="module")
def unreviewed(fewer, tmp_path_factory):
    made = build("--out", str(tmp_path_factory.mktemp("out")), "--werror",
                 "--tables", str(fewer))
    assert made.returncode == 0, made.stderr
    assert "7 functions, 1 unreviewed: cufftXtMakePlanMany" in made.stderr
    return Phantom(Path(made.stdout.strip()))


def test_a_strict_build_refuses_it_by_name(fewer, tmp_path):
    made = build("--out", str(tmp_path), "--strict", "--tables", str(fewer))
    assert made.returncode == 1
    assert "unreviewed: cufftXtMakePlanMany" in made.stderr
    assert not list(tmp_path.iterdir())


FFT = """
x = torch.randn(8, 8, device="cuda")
try:
    torch.fft.fft2(x)
except RuntimeError as error:
    result = str(error)
"""
SAID = "phantom: cufftXtMakePlanMany: nobody has reviewed what it must answer; "


def test_it_fails_as_not_supported(unreviewed):
    job = unreviewed.run(FFT)
    assert "CUFFT_NOT_SUPPORTED" in job.result
    assert job.said == [SAID + "it fails as not supported"]


def test_under_strict_it_ends_the_job(unreviewed):
    job = unreviewed.run(FFT, CKPT_PHANTOM_STRICT="1")
    assert job.status == -6     # SIGABRT
    assert job.said == [SAID + "CKPT_PHANTOM_STRICT=1 ends the job here"]


ENTRY = """
lib = ctypes.CDLL(None)
def entry(name):
    function, answer = ctypes.c_void_p(1), ctypes.c_int(-1)
    ask = lib.cudaGetDriverEntryPointByVersion
    ask.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint,
                    ctypes.c_ulonglong, ctypes.c_void_p]
    status = ask(name, ctypes.byref(function), 12000, 0, ctypes.byref(answer))
    return [status, function.value is not None, answer.value]
"""


def test_a_driver_function_is_found_or_named(phantom):
    code = ENTRY + """
newest = [entry(b"cuMemGetAddressRange"), entry(b"cuMemMap")]
result = [newest, entry(b"cuNobodyKnowsIt")]
"""
    job = phantom.run(code, torch=False)
    assert job.result == [[[0, True, 0], [0, True, 0]], [0, False, 1]]
    assert "cuNobodyKnowsIt" in job.said[0]
    assert phantom.run(code, torch=False, CKPT_PHANTOM_STRICT="1").status == -6
