"""C sources of the stubs, from the answers in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tables import Answer, Table

HEAD = """\
/* Generated from functions/{name}.txt. */
#include "calls.h"
#include "handle.h"
#include "put.h"

#include <stddef.h>

"""

WRITES = {"int": "int32_t", "long": "int64_t", "byte": "int8_t"}


def _statement(answer: Answer) -> str | None:
    """What the stub does for an answer; None if nothing but returning."""
    target = f"a{answer.argument}"
    if answer.verb in WRITES:
        return f"PUT({WRITES[answer.verb]}, {target}, {answer.value});"
    if answer.verb == "zero":
        return f"put_zeros({target}, {answer.value});"
    if answer.verb == "handle":
        return f"put_handle({target});"
    if answer.verb == "end":
        return f"{'end_handle_at' if answer.star else 'end_handle'}({target});"
    if answer.verb == "text" and answer.argument is not None:
        return f"PUT(const char *, {target}, {answer.value});"
    return None


def _result(table: Table, answers: Iterable[Answer]) -> str:
    for answer in answers:
        if answer.verb == "refuse":
            return table.refuse
        if answer.verb == "returns":
            return answer.value
        if answer.verb == "text" and answer.argument is None:
            return f"(intptr_t){answer.value}"
    return "0"


def _function(name: str, parameters: int, body: Iterable[str]) -> str:
    listed = ", ".join(f"intptr_t a{i}" for i in range(parameters)) or "void"
    lines = "".join(f"\t{line}\n" for line in body)
    return f"PHANTOM_API intptr_t {name}({listed})\n{{\n{lines}}}\n"


def reviewed(table: Table, name: str) -> str:
    """The stub of a function that stands in the table."""
    answers = table.functions[name]
    used = [a.argument for a in answers if a.argument is not None]
    statements = [s for s in map(_statement, answers) if s is not None]
    return _function(
        name,
        max(used, default=-1) + 1,
        [
            f'static struct phantom_call call = {{ .name = "{name}" }};',
            "",
            "phantom_called(&call);",
            *statements,
            f"return {_result(table, answers)};",
        ],
    )


def unreviewed(table: Table, name: str) -> str:
    """The stub of a function that nobody has listed."""
    return _function(
        name,
        0,
        [
            f'static struct phantom_call call = {{ .name = "{name}" }};',
            "",
            "phantom_unreviewed(&call, NULL);",
            f"return {table.refuse};",
        ],
    )


def source(table: Table, names: Iterable[str]) -> Iterator[str]:
    """The parts of the C file with the stubs of these functions."""
    yield HEAD.format(name=table.name)
    by_hand = table.by_hand()
    for name in sorted(names):
        if name in by_hand:
            continue
        if name in table.functions:
            yield reviewed(table, name)
        else:
            yield unreviewed(table, name)
        yield "\n"
