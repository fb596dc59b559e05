"""Compiles the phantom: the core, a stub library each, and libphantom.so."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import elf
import stub
from torch_libraries import Library, Torch

SOURCES = Path(__file__).resolve().parent.parent
AGENT = SOURCES.parent.parent / "agent"
CORE = "libphantomcore.so"
PHANTOM = "libphantom.so"
STAMP = "stamp"


class BuildError(Exception):
    """The compiler failed, or a library lacks what torch wants of it."""


class Builder:
    """Builds into `folder`, with the macros of one torch."""

    def __init__(self, folder: Path, torch: Torch, werror: bool) -> None:
        self.folder = folder
        self.flags = [
            *os.environ.get("CC", "gcc").split(),
            *"-std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter".split(),
            *(["-Werror"] if werror else []),
            *"-fPIC -shared -fvisibility=hidden -D_GNU_SOURCE".split(),
            f"-I{SOURCES / 'core'}",
            f"-I{AGENT}",
            *(f"-D{name}={value}" for name, value in torch.definitions().items()),
        ]

    def link(self, soname: str, sources: Iterable[Path], *more: str) -> Path:
        """One shared library, which finds the others beside it.

        An RPATH, not a RUNPATH: LD_LIBRARY_PATH may name the real libraries.
        """
        made = self.folder / soname
        command = [
            *self.flags,
            *map(str, sources),
            "-o",
            str(made),
            f"-Wl,-soname,{soname},--disable-new-dtags,-rpath,$ORIGIN",
            "-Wl,--no-as-needed",
            f"-L{self.folder}",
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{soname}: {done.stderr.strip()}")
        return made

    def core(self) -> None:
        sources = sorted((SOURCES / "core").glob("*.c"))
        self.link(CORE, [*sources, AGENT / "units.c"], "-lpthread")

    def library(self, library: Library) -> None:
        name = library.table.name
        generated = self.folder / f"{name}_stubs.c"
        generated.write_text("".join(stub.source(library.table, library.versions)))
        script = self.folder / f"{name}.map"
        script.write_text(version_script(library))
        by_hand = hand_sources(name)
        made = self.link(
            library.soname,
            [generated, *by_hand],
            *(f"-I{folder}" for folder in {path.parent for path in by_hand}),
            f"-Wl,--version-script={script}",
            f"-l:{CORE}",
            "-ldl",
        )
        missing = set(library.versions) - elf.exports(str(made))
        if missing:
            raise BuildError(f"{library.soname}: lacks {' '.join(sorted(missing))}")

    def phantom(self, libraries: Sequence[Library]) -> None:
        empty = self.folder / "phantom.c"
        empty.write_text("/* Only needs the libraries beside it. */\n")
        self.link(PHANTOM, [empty], *(f"-l:{x.soname}" for x in libraries))


def hand_sources(name: str) -> list[Path]:
    """What is written by hand for a library: a folder, or files of its name."""
    files = sorted((SOURCES / name).glob("*.c"))
    for pattern in (f"{name}.c", f"{name}_*.c"):
        files += sorted((SOURCES / "libraries").glob(pattern))
    return files


def version_script(library: Library) -> str:
    """A node for each symbol version; what has none shares one without a name."""
    nodes: dict[str, list[str]] = {}
    named = sorted({v for v in library.versions.values() if v is not None})
    for symbol, version in sorted(library.versions.items()):
        # An anonymous node cannot stand beside a named one.
        label = version or (named[0] if named else "")
        nodes.setdefault(label, []).append(symbol)
    lines = []
    for label, symbols in nodes.items():
        lines += [f"{label} {{", "\tglobal:", *(f"\t\t{s};" for s in symbols)]
        if label == next(iter(nodes)):
            lines.append("\tlocal:\n\t\t*;")
        lines.append("};")
    return "\n".join(lines) + "\n" if lines else "{ local: *; };\n"


def stamp(torch: Torch, files: Iterable[Path], tables: Path) -> str:
    """Changes with everything that the phantom is made from."""
    digest = hashlib.sha256()
    sources = [p for p in SOURCES.rglob("*") if p.suffix in (".c", ".h", ".py")]
    for path in sorted([*sources, *tables.glob("*.txt"), *AGENT.glob("units.*")]):
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    for path in files:
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    digest.update(repr(torch).encode())
    return digest.hexdigest()


def current(folder: Path, wanted: str) -> bool:
    try:
        return (folder / STAMP).read_text() == wanted
    except OSError:
        return False


def build(
    folder: Path,
    torch: Torch,
    libraries: Sequence[Library],
    wanted: str,
    werror: bool = False,
) -> None:
    """Replaces `folder` as a whole, once everything has been built."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        builder = Builder(fresh, torch, werror)
        builder.core()
        for library in libraries:
            builder.library(library)
        builder.phantom(libraries)
        (fresh / STAMP).write_text(wanted)
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
