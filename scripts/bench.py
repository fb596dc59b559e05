"""Measures the figures that this project promises; see scripts/bench."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS.parent / "tests" / "e2e"))
import bench_cuda
import bench_native
import bench_overhead
import bench_peaks
import bench_regions
import bench_steady
import bench_trust
import job
from bench_figure import Figure, print_figures

# part -> a function of `quick` that hands back (figures, data)
PARTS = {
    "peaks": bench_peaks.measure,
    "regions": bench_regions.measure,
    "events": bench_native.measure_events,
    "process": bench_native.measure_process,
    "steady": bench_steady.measure,
    "trust": bench_trust.measure,
    "overhead": bench_overhead.measure,
    "solve": bench_native.measure_solve,
    "cuda": bench_cuda.measure,
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for part in options.only:
        if part not in PARTS:
            parser.error(f"no part {part}; there are: {', '.join(PARTS)}")
    return options


def machine():
    import torch
    names = [line.split(":")[1].strip()
             for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"processor": names[0] if names else "unknown",
            "cores": len(os.sched_getaffinity(0)), "torch": torch.__version__,
            "python": sys.version.split()[0],
            "load": os.getloadavg()[0]}


def run_part(name, quick):
    """A part that breaks off is a figure that is not met."""
    try:
        return PARTS[name](quick)
    except (job.JobError, OSError, ValueError, KeyError) as error:
        text = f"{type(error).__name__}: {error}"
        print(text, flush=True)
        return [Figure(name, "measured", text[:80], False)], {}


def main():
    options = parse()
    found = machine()
    print(", ".join(f"{key} {value}" for key, value in found.items()))
    figures, data = [], {}
    for name in options.only:
        print(f"\n== {name}", flush=True)
        begin = time.monotonic()
        some, data[name] = run_part(name, options.quick)
        figures += some
        print(f"  ({time.monotonic() - begin:.0f} s)", flush=True)
    print("\n== Figures\n")
    print_figures(figures)
    if options.json:
        options.json.write_text(json.dumps(
            {"format": "ckptagent.bench", "version": 1, "machine": found,
             "figures": [vars(f) for f in figures], "data": data}, indent=1))
    return 0 if all(f.met for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
