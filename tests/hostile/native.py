"""Small C programs and libraries, compiled by the tests that use them."""

import os
import pathlib
import shlex
import subprocess

from job import built, environment

HERE = pathlib.Path(__file__).resolve().parent
FAKES = HERE.parent / "fakes"
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
SHARED = ["-shared", "-fPIC", "-fvisibility=hidden"]
TIMEOUT = 120  # seconds


class Compiler:
    """Sources of this folder (or absolute ones) to products in one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.command = shlex.split(os.environ.get("CC", "cc"))

    def __call__(self, product, *sources, flags=()):
        """The path of the product; made on the first call that names it.

        flags come last, so that they may name libraries.
        """
        path = self.folder / product
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([*self.command, *FLAGS, "-o", path,
                            *(HERE / source for source in sources), *flags],
                           check=True, cwd=HERE)
        return path

    def library(self, product, *sources, flags=()):
        return self(product, *sources, flags=[*SHARED, *flags])


class Fakes:
    """tests/fakes: a host process and libraries in the place of libc10."""

    def __init__(self, compile_c):
        self.compile = compile_c
        self.python = compile_c("host_python", FAKES / "host.c",
                                flags=["-DWITH_PYTHON", "-rdynamic"])
        self.plain = compile_c("host_plain", FAKES / "host.c")

    def c10(self, product="libc10.so", flags=()):
        """A library that allocates and has the reporter."""
        return self.compile.library(product, FAKES / "c10.c", FAKES / "reporter.c",
                                    flags=flags)

    def host(self, library, *steps, host=None, preload=None, **settings):
        """What the host printed, standard error included."""
        return output([host or self.python, library, *steps], preload, **settings)


def output(command, preload=None, **settings):
    """What a command under the library prints; it must end well."""
    done = run(command, preload, **settings)
    assert done.returncode == 0, (done.returncode, done.stdout)
    return done.stdout


def run(command, preload=None, cwd=None, before=None, **settings):
    """Run a command with the library (or `preload`) loaded, both outputs in one.

    before: a function to call in the child before it becomes the command.
    """
    if preload is None:
        preload = built("libckptagent.so")
    return subprocess.run([str(word) for word in command],
                          env=environment(**settings, LD_PRELOAD=str(preload)),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT,
                          cwd=cwd, preexec_fn=before)
