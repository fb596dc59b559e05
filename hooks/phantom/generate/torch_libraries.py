"""An installed torch: its version, and what it needs from NVIDIA's libraries."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import elf
from tables import Table

# What counts as one of NVIDIA's when no table knows it: then we must not go on.
NVIDIA = re.compile(r"lib(cu|nccl|nv)\w*(-ml)?\.so")

# Opened by name, never linked.
OPENED = {"cuda": "libcuda.so.1", "nvidia-ml": "libnvidia-ml.so.1"}

# Where torch's requirements name no version: newer than any it was built for.
NEWEST_CUDNN = (9, 99, 0)
NEWEST_NCCL = (2, 99, 0)


class TorchError(Exception):
    """No torch, or not one that a phantom can be made for."""


@dataclass
class Library:
    """One library to make. `versions` maps a symbol to its version or None."""

    table: Table
    soname: str
    versions: dict[str, str | None] = field(default_factory=dict)

    @property
    def unreviewed(self) -> list[str]:
        return sorted(set(self.versions) - set(self.table.functions))


@dataclass
class Torch:
    folder: Path
    version: str
    cuda: tuple[int, int]
    cudnn: tuple[int, int, int]
    nccl: tuple[int, int, int]

    def files(self) -> list[Path]:
        return sorted((self.folder / "lib").glob("*.so"))

    def definitions(self) -> dict[str, int]:
        """The macros that the sources of the phantom are compiled with."""
        major, minor = self.cuda
        return {
            "PHANTOM_CUDA_MAJOR": major,
            "PHANTOM_CUDA_VERSION": 1000 * major + 10 * minor,
            "PHANTOM_CUDNN_VERSION": _number(self.cudnn, 100),
            "PHANTOM_NCCL_VERSION": _number(self.nccl, 100),
            # CUPTI_API_VERSION: its own count up to 12, then CUDA's number.
            "PHANTOM_CUPTI_VERSION": 26 if major == 12 else 10000 * major,
        }


def _number(version: tuple[int, int, int], base: int) -> int:
    """As cuDNN 9 and NCCL write it: 10000 * major + 100 * minor + patch."""
    major, minor, patch = version
    return (major * base + minor) * base + patch


def _required(folder: Path, package: str) -> tuple[int, int, int] | None:
    """The version of a package that torch's own requirements pin."""
    for metadata in folder.parent.glob("torch-*.dist-info/METADATA"):
        found = re.search(
            rf"^Requires-Dist: {package}-cu\d+ *\(?== *(\d+)\.(\d+)\.(\d+)",
            metadata.read_text(errors="replace"),
            re.MULTILINE,
        )
        if found:
            return int(found[1]), int(found[2]), int(found[3])
    return None


def find() -> Torch:
    """The torch of this interpreter, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise TorchError("this interpreter has no torch")
    folder = Path(spec.origin).parent
    text = (folder / "version.py").read_text()
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*= '(\d+)\.(\d+)", text, re.MULTILINE)
    if version is None or cuda is None:
        raise TorchError(f"{folder}: a torch without CUDA")
    if int(cuda[1]) not in (12, 13):
        raise TorchError(f"{folder}: CUDA {cuda[1]}; 12 and 13 are known")
    return Torch(
        folder,
        version[1],
        (int(cuda[1]), int(cuda[2])),
        _required(folder, "nvidia-cudnn") or NEWEST_CUDNN,
        _required(folder, "nvidia-nccl") or NEWEST_NCCL,
    )


def _owner(libraries: Iterable[Library], symbol: elf.Import) -> Library | None:
    """The library that a symbol is looked for in."""
    if symbol.library is not None:
        return next((x for x in libraries if x.soname == symbol.library), None)
    found = None
    for library in libraries:
        for prefix in library.table.prefixes:
            # "cu" followed by a capital is the driver; "cusparseLt" is not.
            rest = symbol.name[len(prefix) :]
            if symbol.name.startswith(prefix) and rest[:1] in (*"_", *CAPITALS):
                found = library
    return found


CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _sonames(needs: Iterable[elf.Needs], tables: list[Table]) -> Iterator[Library]:
    wanted = {name for need in needs for name in need.libraries}
    wanted.update(OPENED.values())
    for soname in sorted(wanted):
        table = next((t for t in tables if t.owns(soname)), None)
        if table is not None:
            yield Library(table, soname)
        elif NVIDIA.match(soname):
            raise TorchError(f"{soname}: no table in functions/ is for it")


def libraries(files: Iterable[Path], tables: list[Table]) -> list[Library]:
    """What to make so that these files find everything of NVIDIA's."""
    needs = [elf.needs(str(path)) for path in files]
    made = list(_sonames(needs, tables))
    for need in needs:
        for symbol in need.imports:
            owner = _owner(made, symbol)
            if owner is not None:
                owner.versions[symbol.name] = symbol.version
    for library in made:
        if library.table.export_all:
            for name in library.table.functions:
                library.versions.setdefault(name, None)
    return made
