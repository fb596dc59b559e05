"""What scripts/gpu-check found, as a table and as JSON."""

from __future__ import annotations

import dataclasses

import bench_cuda
from bench_figure import Figure
from cuda_cells import gib


def rows(check):
    """Of the table: one a job, a heading first."""
    made = [("model", "job", "budget", "taken", "over", "tensors", "predicted",
             "recomputed", "step ms", "of plain", "gradients")]
    for model in check.models:
        if not model.plain:
            continue
        for what, done in (("plain", model.plain),
                           ("checkpoint on all", model.checkpoint)):
            if done:
                made.append((model.name, what, "-", gib(done.peak), "-",
                             gib(done.steps[-1]["allocated"]), "-", "-",
                             *times(check, model, done.milliseconds), "-"))
        for cell in sorted(model.cells, key=lambda cell: cell.place):
            made.append((
                model.name, f"budget at {cell.place:.0%}", gib(cell.budget),
                gib(cell.taken[-1]), f"{cell.over} B", gib(cell.allocated),
                f"{cell.error:+.4%}", f"{cell.recomputed} of {cell.blocks}",
                *times(check, model, cell.milliseconds), bits(model, cell)))
    return made


def times(check, model, milliseconds):
    if not check.real:
        return "-", "-"
    return (f"{milliseconds:.1f}",
            f"{milliseconds / model.plain.milliseconds:.3f}")


def bits(model, cell):
    if cell.bits is None:
        return "-" if model.deterministic is None else "not deterministic"
    return "equal" if cell.bits else "DIFFER"


def figures(check):
    cells = [cell for model in check.models for cell in model.cells]
    failed = [name for name, passed, _ in check.tests if passed is False]
    passed = sum(passed is True for _, passed, _ in check.tests)
    found = [Figure("CUDA tests", "all pass", f"{passed} of "
                    f"{passed + len(failed)} pass", bool(passed) and not failed)]
    if not cells:
        return [*found, Figure("budgets", "every cell", "no cell was run", False)]
    if check.clock.broken:
        found.append(Figure("jobs", "all end well",
                            f"{len(check.clock.broken)} failed", False))
    some = bench_cuda.budget_figures(cells)
    compared = [cell for cell in cells if cell.bits is not None]
    if compared:
        equal = sum(cell.bits for cell in compared)
        some.append(Figure(
            "gradients and random streams, deterministic kernels",
            "bitwise equal", f"{equal} of {len(compared)} cells",
            equal == len(compared)))
    return found + some


def table(rows):
    """As Markdown, which reads well as text too."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(f"{cell:{width}}" for cell, width
                               in zip(row, widths, strict=True)) + " |"
             for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def text(check, device, seconds):
    lines = [f"{device['device']}, {gib(device['memory'])}, torch {device['torch']}, "
             f"CUDA {device['cuda']}; {seconds:.0f} s", ""]
    if not check.real:
        lines[:0] = ["A phantom device: no value and no time is real.", ""]
    lines += [table(rows(check)), "",
              table([("figure", "to reach", "measured", ""),
                     *((f.name, f.to_reach, f.measured, "met" if f.met else "NOT MET")
                       for f in figures(check))]), ""]
    lines += [f"test failed: {name}: {why}" for name, passed, why in check.tests
              if passed is False]
    left_out = [name for name, passed, why in check.tests if passed is None and
                why == "needs a GPU"]
    lines += [f"test left out, for it needs a GPU: {name}" for name in left_out]
    lines += [f"failed: {what}: {why}" for what, why in check.clock.broken]
    lines.append(f"not run: {len(check.clock.not_run)}")
    lines += [f"  {what}: {why}" for what, why in check.clock.not_run]
    return "\n".join(lines) + "\n"


def document(check, device, seconds):
    return {"format": "ckptagent.gpu-check", "version": 1, "real": check.real,
            "seconds": seconds, "machine": device,
            "tests": [{"name": name, "passed": passed, "detail": why}
                      for name, passed, why in check.tests],
            "models": [{"model": m.name, "deterministic": m.deterministic,
                        **{what: done and done.result for what, done in
                           (("plain", m.plain), ("checkpoint", m.checkpoint),
                            ("least", m.least))},
                        "cells": [dataclasses.asdict(c) for c in m.cells]}
                       for m in check.models],
            "not_run": [{"what": what, "why": why}
                        for what, why in check.clock.not_run],
            "failed": [{"what": what, "why": why} for what, why in check.clock.broken],
            "figures": [vars(figure) for figure in figures(check)]}
