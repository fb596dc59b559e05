"""What a part of the benchmark hands back: figures, and tables behind them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Figure:
    """One line of the closing table."""

    name: str
    to_reach: str
    measured: str
    met: bool
    numbers: dict = dataclasses.field(default_factory=dict)


def print_table(rows, indent=""):
    """Rows of equal length, the first one a heading; first column left."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{row[0]:{widths[0]}}"]
        cells += [f"{cell:>{width}}"
                  for cell, width in zip(row[1:], widths[1:], strict=True)]
        print(indent + "  ".join(cells).rstrip())


def print_figures(figures):
    rows = [("figure", "to reach", "measured", "")]
    rows += [(f.name, f.to_reach, f.measured, "met" if f.met else "NOT MET")
             for f in figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width
                        in zip(row, widths, strict=True)).rstrip())
