"""Real models on torch's CUDA allocator under budgets, on the phantom device."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import cuda_cells
import job
from bench_figure import Figure, print_table
from bench_native import lines_of
from cuda_cells import EXPANDABLE, PLACES, SCRIPTS, gib

MODELS = ("gpt2", "gpt2-medium", "llama-1b", "t5", "bert")
DTYPES = ("bf16", "fp32")
# allocator's settings -> (places of the budgets, how far a prediction may be off)
ALLOCATORS = {"": (PLACES, 0.001), EXPANDABLE: (PLACES[::2], 0.0005)}
QUICK_MODELS, QUICK_DTYPES, QUICK_PLACES = ("gpt2", "bert"), DTYPES[:1], PLACES[::2]
FIRST_SHARE = 0.95      # of the cells, held at the first planned step
EVENT_NS = 50
REHEARSAL_S, REHEARSAL_BYTES = 60, 4 << 30

# Peak resident memory of a command and all that it starts, which is asked for in a
# process of its own: it is the most of all children there have been.
MEASURE = """import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print("KIB", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)"""


# ---- the interpreter and its device ---------------------------------------------

def has_cuda(python):
    """Whether its torch is a build with CUDA; torch need not load for that."""
    code = ("import importlib.util as u, pathlib, sys; s = u.find_spec('torch');"
            "sys.exit(not s or not u.find_spec('transformers') or not (pathlib.Path("
            "s.origin).parent / 'lib' / 'libc10_cuda.so').exists())")
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def interpreter():
    """One with a CUDA torch and transformers: CKPT_CUDA_PYTHON, this one, or one
    of the environments that the scripts make; None if there is none.
    """
    venv = os.environ.get("CKPT_VENV", str(job.ROOT / ".venv"))
    for python in (os.environ.get("CKPT_CUDA_PYTHON"), sys.executable,
                   f"{venv}-phantom/bin/python", f"{venv}-new/bin/python"):
        if python and shutil.which(python) and has_cuda(python):
            return python
    return None


def phantom_place(python):
    """The phantom device for this interpreter's torch, made if need be."""
    done = subprocess.run(
        [python, "-B", str(job.ROOT / "hooks/phantom/generate"), "--out",
         str(job.BUILD / "phantom")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise job.JobError(f"no phantom device: {done.stderr.strip()[-300:]}")
    return cuda_cells.Place(python, done.stdout.strip())


# ---- budgets --------------------------------------------------------------------

def sweep(place, model, dtype, places=None):
    """All cells of one model, and how many of them broke off."""
    cells, broken = [], 0
    floor = cuda_cells.start(place, model, dtype, "min").peak
    for allocator, (every, _) in ALLOCATORS.items():
        top = cuda_cells.start(place, model, dtype, "max", allocator=allocator).peak
        print(f"  {model} {dtype}{', ' if allocator else ''}{allocator}: "
              f"lowest {gib(floor)}, plain {gib(top)} taken", flush=True)
        for at in places or every:
            budget = cuda_cells.budget_at(at, floor, top)
            try:
                done = cuda_cells.start(place, model, dtype, budget,
                                        allocator=allocator)
                cells.append(cuda_cells.cell(done, model, dtype, allocator, at,
                                             budget, floor, top))
            except job.JobError as error:
                print(f"  {error}", flush=True)
                broken += 1
    return cells, broken


def prediction(allocator, cells, within):
    errors = [cell.error for cell in cells if cell.allocator == allocator]
    least, most = min(errors), max(errors)
    return Figure(
        "CUDA, predicted against real peak"
        + (", expandable segments" if allocator else ""),
        f"within {within:.2%}", f"{least:+.4%} to {most:+.4%}",
        max(most, -least) <= within, {"lowest": least, "highest": most})


def budget_figures(cells, broken=0):
    """broken: how many more cells there are that say nothing."""
    of = len(cells) + broken
    held = sum(cell.held for cell in cells)
    first = sum(cell.held_at_first for cell in cells)
    second = sum(cell.held_at_second for cell in cells)
    over = max(cell.over for cell in cells)
    differ = max(cell.differ for cell in cells)
    return [
        Figure("CUDA, budget held after the second planned step", "every cell",
               f"{held} of {of} cells", held == of),
        Figure("CUDA, budget held in the first planned step",
               f">= {FIRST_SHARE:.0%} of the cells",
               f"{first} of {of} cells (second: {second})", first >= FIRST_SHARE * of),
        *(prediction(allocator, cells, within)
          for allocator, (_, within) in ALLOCATORS.items()
          if any(cell.allocator == allocator for cell in cells)),
        Figure("CUDA, reserved over the budget at the end", "0 B", f"{over} B",
               over == 0),
        Figure("CUDA, the agent's totals against torch's", "equal",
               "equal" if not differ else f"{differ} B apart", differ == 0),
    ]


# ---- the event's cost and a rehearsal -------------------------------------------

def event_figure():
    text = lines_of("scripts/bench_cuda_event")
    found = {name.strip(): float(value) for name, value in
             re.findall(r"^(\D+?) +([\d.]+)$", text, re.MULTILINE)}
    worst = max(found["ns an event"], found["ns an event, taped"])
    return Figure("CUDA allocation event", f"<= {EVENT_NS} ns", f"{worst:.1f} ns",
                  worst <= EVENT_NS, found)


def rehearsal_figure(python):
    """A model of 1.2 billion parameters, with a plan."""
    with tempfile.TemporaryDirectory(prefix="ckpt-rehearsal-") as folder:
        words = [str(job.built("ckptagent")), "rehearse", "--device", "A100-40G",
                 "--out", folder, "--", python, str(SCRIPTS / "train_lm.py"),
                 "--model", "llama-1b", "--dtype", "float32"]
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *words], capture_output=True, text=True,
            env=job.environment(XDG_CACHE_HOME=str(job.BUILD / "cache")),
            stdin=subprocess.DEVNULL, timeout=600, check=False)
        seconds = time.monotonic() - begin
        planned = (pathlib.Path(folder) / "plan.json").exists()
    if done.returncode or not planned:
        raise job.JobError(f"rehearse: status {done.returncode}, "
                           f"{(done.stderr or done.stdout).strip()[-300:]}")
    (kib,) = re.findall(r"^KIB (\d+)$", done.stdout, re.MULTILINE)
    return Figure(
        "rehearsal of a model of 1.2 B parameters",
        f"<= {REHEARSAL_S} s, host memory <= {gib(REHEARSAL_BYTES)}",
        f"{seconds:.0f} s, {gib(1024 * int(kib))}",
        seconds <= REHEARSAL_S and 1024 * int(kib) <= REHEARSAL_BYTES,
        {"seconds": seconds, "bytes": 1024 * int(kib)})


def measure(quick):
    """Figures, and the cells as plain data."""
    python = interpreter()
    if python is None:
        print("  left out: it needs a torch with CUDA (no GPU) and transformers;\n"
              "  scripts/phantom makes such an environment, or CKPT_CUDA_PYTHON=PATH\n"
              "  names an interpreter that has them")
        return [], {}
    place = phantom_place(python)
    figures = [event_figure(), rehearsal_figure(python)]
    wanted = [(model, dtype) for model in (QUICK_MODELS if quick else MODELS)
              for dtype in (QUICK_DTYPES if quick else DTYPES)]
    cells, broken = [], 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for some, others in pool.map(
                lambda pair: sweep(place, *pair, QUICK_PLACES if quick else None),
                wanted):
            cells += some
            broken += others
    print_table([cuda_cells.HEAD, *(cell.row() for cell in cells)], "  ")
    return budget_figures(cells, broken) + figures, {
        "cells": [dataclasses.asdict(cell) for cell in cells]}
