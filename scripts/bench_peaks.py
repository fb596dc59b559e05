"""Real models under budgets: peaks, predictions, equality, recompute time."""

from __future__ import annotations

import concurrent.futures
import dataclasses

import job
from bench_figure import Figure, print_table
from bench_planner import Planner

MODELS = ("gpt", "gpt2", "llama", "t5", "bert", "resnet", "unet")
PLACES = (0.10, 0.25, 0.50, 0.75, 0.90)
QUICK_MODELS, QUICK_PLACES = ("gpt", "resnet"), (0.10, 0.50, 0.90)
STEPS = 6
MIB = 1 << 20
TOLERANCE = 0.001  # of the real peak, for the predicted one


@dataclasses.dataclass
class Cell:
    """One model under one budget."""

    model: str
    place: float
    budget: int
    peak: int
    predicted: int
    differences: list
    recomputed: str
    recompute_ms: float
    best_other: tuple | None  # (planner, ms) of the others that hold

    @property
    def held(self):
        return self.peak <= self.budget

    @property
    def error(self):
        """Predicted over real, less one."""
        return self.predicted / self.peak - 1

    @property
    def cheapest(self):
        return (self.best_other is None
                or self.recompute_ms <= self.best_other[1] + 1e-6)

    def row(self):
        other = "none holds"
        if self.best_other:
            other = f"{self.best_other[1]:.1f} ({self.best_other[0]})"
        return (self.model, f"{self.place:.0%}", mib(self.budget),
                mib(self.peak), mib(self.predicted), f"{self.error:+.3%}",
                "yes" if self.held else "NO",
                "equal" if not self.differences else "DIFFER",
                self.recomputed, f"{self.recompute_ms:.1f}", other)


HEAD = ("model", "at", "budget", "peak", "predicted", "error", "held",
        "bits", "recomputed", "recompute ms", "best other planner, ms")


def mib(value):
    return f"{value / MIB:.2f} MiB"


def start(name, budget=None, **options):
    done = job.run([job.HERE / "models.py", name, "--steps", STEPS],
                   budget=budget, **options)
    if done.status:
        raise job.JobError(f"{name} at {budget}: status {done.status}: "
                           f"{done.stderr.strip()[-300:]}")
    return done


class Sweep:
    """All cells of one model."""

    def __init__(self, name, planner):
        self.name = name
        self.planner = planner
        self.plain = start(name, agent=False)
        self.most = start(name, "max")
        self.least = start(name, "min")
        self.floor = self.least.report["floor_bytes"]
        self.top = self.most.peak

    def cell(self, place):
        budget = int(self.floor + place * (self.top - self.floor))
        done = start(self.name, budget)
        report = done.report
        plans = self.planner.solve_all(done.profile, budget)
        others = [(plan["recompute_ms"], planner)
                  for planner, plan in plans.items()
                  if planner != "optimal" and isinstance(plan, dict)
                  and plan["feasible"]]
        best = min(others, default=None)
        return Cell(self.name, place, budget, done.peak,
                    report["peak_bytes"]["predicted"],
                    job.differences(self.plain, done),
                    f"{done.recomputed()} of {len(report['blocks'])}",
                    plans["optimal"]["recompute_ms"],
                    best and (best[1], best[0]))

    def keep_all(self):
        """First iteration's peaks: no block at all, a kept frame on each."""
        bare = start(self.name, "max", CKPT_BLOCKS="class:NoBlockIsCalledThis")
        return (bare.report["peak_bytes"]["first"],
                self.most.report["peak_bytes"]["first"])


def sweep(name, places, planner):
    one = Sweep(name, planner)
    print(f"  {name}: floor {mib(one.floor)}, plain peak {mib(one.top)}",
          flush=True)
    return one, [one.cell(place) for place in places], one.keep_all()


def share(good, all_of_them, what):
    return f"{good} of {all_of_them} {what}"


def figures(cells, kept):
    """kept: model -> (peak without frames, with every frame kept), in bytes."""
    over = max(cell.error for cell in cells)
    under = min(cell.error for cell in cells)
    held = sum(cell.held for cell in cells)
    equal = sum(not cell.differences for cell in cells)
    cheapest = sum(cell.cheapest for cell in cells)
    same = sum(one == other for one, other in kept.values())
    return [
        Figure("budget held", "every cell", share(held, len(cells), "cells"),
               held == len(cells)),
        Figure("predicted against real peak", "within 0.1 %",
               f"{under:+.3%} to {over:+.3%}",
               max(over, -under) <= TOLERANCE,
               {"lowest": under, "highest": over}),
        Figure("gradients, buffers, random streams", "bitwise equal",
               share(equal, len(cells), "cells"), equal == len(cells)),
        Figure("keep-all under frames against plain", "the same byte",
               share(same, len(kept), "models"), same == len(kept),
               {name: {"plain": one, "keep_all": other}
                for name, (one, other) in kept.items()}),
        Figure("recompute time at each budget", "<= every other planner",
               share(cheapest, len(cells), "cells"), cheapest == len(cells)),
    ]


def measure(quick):
    """Figures, and the cells as plain data."""
    models = QUICK_MODELS if quick else MODELS
    places = QUICK_PLACES if quick else PLACES
    planner = Planner()
    cells, kept = [], {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for one, some, keep_all in pool.map(
                lambda name: sweep(name, places, planner), models):
            cells += some
            kept[one.name] = keep_all
    print_table([HEAD, *(cell.row() for cell in cells)], "  ")
    return figures(cells, kept), {
        "cells": [dataclasses.asdict(cell) for cell in cells]}
