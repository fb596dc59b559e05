import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import native  # noqa: E402


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """Compiles a C source once in a session; see native.Compiler."""
    return native.Compiler(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def fakes(compile_c):
    """What stands for torch and Python in processes without either."""
    return native.Fakes(compile_c)
