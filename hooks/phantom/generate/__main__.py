"""Makes the phantom device for the torch of the interpreter that runs this.

    python -B hooks/phantom/generate --out DIR [--strict] [--werror] [--also FILE…]

Prints the path of libphantom.so, which a job preloads. What was made before
from the same torch and the same sources is used again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import build
import elf
import tables
import torch_libraries


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="generate", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--strict", action="store_true", help="fail if torch imports what no table has"
    )
    parser.add_argument(
        "--werror", action="store_true", help="every warning of the compiler fails"
    )
    parser.add_argument(
        "--also",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="libraries beside torch's own that link NVIDIA's",
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=tables.FUNCTIONS,
        metavar="DIR",
        help="other tables than those of functions/",
    )
    return parser.parse_args()


def report(libraries: list[torch_libraries.Library]) -> int:
    """Says what is made; returns how many functions nobody has reviewed."""
    count = 0
    for library in libraries:
        unreviewed = library.unreviewed
        count += len(unreviewed)
        line = f"{library.soname}: {len(library.versions)} functions"
        if unreviewed:
            line += f", {len(unreviewed)} unreviewed: {' '.join(unreviewed)}"
        print(line, file=sys.stderr)
    return count


def make(chosen: argparse.Namespace) -> int:
    torch = torch_libraries.find()
    files = [*torch.files(), *chosen.also]
    folder = chosen.out.resolve() / f"torch-{torch.version}"
    libraries = torch_libraries.libraries(files, tables.read_all(chosen.tables))
    if chosen.strict and any(library.unreviewed for library in libraries):
        report(libraries)
        return 1
    wanted = build.stamp(torch, files, chosen.tables)
    if not build.current(folder, wanted):
        report(libraries)
        build.build(folder, torch, libraries, wanted, chosen.werror)
    print(folder / build.PHANTOM)
    return 0


def main() -> int:
    try:
        return make(arguments())
    except (
        build.BuildError,
        elf.ElfError,
        tables.TableError,
        torch_libraries.TorchError,
    ) as error:
        print(f"phantom: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
