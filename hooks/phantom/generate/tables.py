"""The tables in functions/: what each library function answers.

functions/README.md describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parent.parent / "functions"

HEAD = re.compile(
    r"library (?P<stem>lib\S+) refuse (?P<refuse>\S+)"
    r"(?: prefixes (?P<prefixes>(?:(?!all\b)\w+ ?)+))?(?P<all> ?all)?$"
)
BRACES = re.compile(r"\{([^{}]*)\}")
ANSWER = re.compile(r'(?:[^\s"]|"[^"]*")+')
KINDS = [
    re.compile(r"(?P<verb>nothing|refuse|hand)$"),
    re.compile(r"(?P<verb>returns)=(?P<value>[-\w*]+)$"),
    re.compile(r'(?P<verb>text)(?:@(?P<argument>\d+))?=(?P<value>"[^"]*")$'),
    re.compile(r"(?P<verb>handle)@(?P<argument>\d+)$"),
    re.compile(r"(?P<verb>end)@(?P<star>\*?)(?P<argument>\d+)$"),
    re.compile(r"(?P<verb>int|long|byte)@(?P<argument>\d+)=(?P<value>[-\w*]+)$"),
    re.compile(r"(?P<verb>zero)@(?P<argument>\d+):(?P<value>\d+)$"),
]


class TableError(Exception):
    """A line of a table is not what functions/README.md describes."""


@dataclass
class Answer:
    verb: str
    argument: int | None = None
    value: str = ""
    star: bool = False


@dataclass
class Table:
    """One library. `functions` maps a name to its answers."""

    name: str
    stem: str
    refuse: str
    prefixes: tuple[str, ...] = ()
    export_all: bool = False
    functions: dict[str, list[Answer]] = field(default_factory=dict)

    def owns(self, soname: str) -> bool:
        return soname.startswith(self.stem + ".so")

    def by_hand(self) -> set[str]:
        return {
            name
            for name, answers in self.functions.items()
            if answers[0].verb == "hand"
        }


def expand(pattern: str) -> Iterator[str]:
    """a{b,c} gives ab and ac."""
    braces = BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from expand(pattern[: braces.start()] + choice + pattern[braces.end() :])


def read_answer(word: str) -> Answer:
    for kind in KINDS:
        found = kind.match(word)
        if found:
            parts = found.groupdict()
            argument = parts.get("argument")
            return Answer(
                parts["verb"],
                None if argument is None else int(argument),
                parts.get("value") or "",
                bool(parts.get("star")),
            )
    raise TableError(f"no such answer: {word}")


def _read_line(table: Table, line: str) -> None:
    names, *words = ANSWER.findall(line)
    if not words:
        raise TableError(f"{names}: no answer")
    answers = [read_answer(word) for word in words]
    for name in expand(names):
        if not re.fullmatch(r"\w+", name):
            raise TableError(f"{name}: not a name")
        if name in table.functions:
            raise TableError(f"{name}: listed twice")
        table.functions[name] = answers


def read(path: Path) -> Table:
    lines = path.read_text().splitlines()
    head = HEAD.match(lines[0]) if lines else None
    if head is None:
        raise TableError(f"{path.name}:1: no head")
    table = Table(
        path.stem,
        head["stem"],
        head["refuse"],
        tuple((head["prefixes"] or "").split()),
        head["all"] is not None,
    )
    for number, line in enumerate(lines[1:], 2):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            _read_line(table, line)
        except TableError as error:
            raise TableError(f"{path.name}:{number}: {error}") from None
    return table


def read_all(folder: Path = FUNCTIONS) -> list[Table]:
    return [read(path) for path in sorted(folder.glob("*.txt"))]
