"""What a shared library needs, read from its ELF file: libraries and symbols.

Only little-endian 64-bit files, which is what torch ships. Section headers are
used; a library stripped of them is refused.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

# Section types and dynamic tags, from the ELF and the GNU specifications.
SHT_DYNAMIC = 6
SHT_DYNSYM = 11
SHT_GNU_VERNEED = 0x6FFFFFFE
SHT_GNU_VERSYM = 0x6FFFFFFF
DT_NULL = 0
DT_NEEDED = 1
SHN_UNDEF = 0
VERSION_MASK = 0x7FFF  # the top bit of a version index says "hidden"


class ElfError(Exception):
    """The file is no ELF file of the kind described above."""


@dataclass
class Section:
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass
class Import:
    """An undefined symbol; `library` and `version` are None if unversioned."""

    name: str
    library: str | None
    version: str | None


@dataclass
class Needs:
    libraries: list[str] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)


class File:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        self.sections = [self._section(start + i * size) for i in range(count)]

    def _section(self, at: int) -> Section:
        kind = struct.unpack_from("<I", self.data, at + 4)[0]
        offset, size, link, info = struct.unpack_from("<QQII", self.data, at + 24)
        return Section(kind, offset, size, link, info)

    def find(self, kind: int) -> Section | None:
        return next((s for s in self.sections if s.kind == kind), None)

    def text(self, strings: Section, at: int) -> str:
        start = strings.offset + at
        return self.data[start : self.data.find(b"\0", start)].decode()

    def strings_of(self, section: Section) -> Section:
        return self.sections[section.link]


def _needed(file: File) -> Iterator[str]:
    dynamic = file.find(SHT_DYNAMIC)
    if dynamic is None:
        raise ElfError("no dynamic section")
    strings = file.strings_of(dynamic)
    for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        tag, value = struct.unpack_from("<QQ", file.data, at)
        if tag == DT_NULL:
            return
        if tag == DT_NEEDED:
            yield file.text(strings, value)


def _versions(file: File) -> dict[int, tuple[str, str]]:
    """Version index to (library, version name)."""
    section = file.find(SHT_GNU_VERNEED)
    versions: dict[int, tuple[str, str]] = {}
    if section is None:
        return versions
    strings = file.strings_of(section)
    need = section.offset
    for _ in range(section.info):
        _, count, name, first, following = struct.unpack_from("<HHIII", file.data, need)
        library = file.text(strings, name)
        entry = need + first
        for _ in range(count):
            _, _, index, label, step = struct.unpack_from("<IHHII", file.data, entry)
            versions[index] = (library, file.text(strings, label))
            entry += step
        need += following
    return versions


def _imports(file: File) -> Iterator[Import]:
    symbols = file.find(SHT_DYNSYM)
    if symbols is None:
        return
    strings = file.strings_of(symbols)
    marks = file.find(SHT_GNU_VERSYM)
    versions = _versions(file)
    for i in range(1, symbols.size // 24):
        name, _, _, section = struct.unpack_from(
            "<IBBH", file.data, symbols.offset + 24 * i
        )
        if section != SHN_UNDEF:
            continue
        index = 0
        if marks is not None:
            (index,) = struct.unpack_from("<H", file.data, marks.offset + 2 * i)
        library, version = versions.get(index & VERSION_MASK, (None, None))
        yield Import(file.text(strings, name), library, version)


def needs(path: str) -> Needs:
    """The libraries and symbols that the library at `path` needs."""
    with open(path, "rb") as stream:
        if os.fstat(stream.fileno()).st_size < 64:
            raise ElfError(f"{path}: too short")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                file = File(data)
                return Needs(list(_needed(file)), list(_imports(file)))
            except (ElfError, struct.error) as error:
                raise ElfError(f"{path}: {error}") from None


def exports(path: str) -> set[str]:
    """The names that the library at `path` defines for others."""
    with open(path, "rb") as stream:
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            file = File(data)
            symbols = file.find(SHT_DYNSYM)
            if symbols is None:
                return set()
            strings = file.strings_of(symbols)
            found = set()
            for i in range(1, symbols.size // 24):
                name, _, _, section = struct.unpack_from(
                    "<IBBH", data, symbols.offset + 24 * i
                )
                if section != SHN_UNDEF:
                    found.add(file.text(strings, name))
            return found
