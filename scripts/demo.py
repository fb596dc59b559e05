"""The demonstration behind scripts/demo: one script, six ways to run it."""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS.parent / "tests" / "e2e"))
import job

MIB = 1 << 20
PLACES = (0.75, 0.5, 0.1)  # budgets between the floor and the plain peak
SHORT = 4  # steps of the two runs that find those


@dataclasses.dataclass
class Run:
    """One run of train_gpt.py."""

    name: str
    report: dict | None
    step_ms: float
    saved: dict

    @property
    def recomputed(self):
        return sum(b["decision"] == "recompute" for b in self.report["blocks"])


class Failure(Exception):
    """A run of the demonstration ended badly."""


class Demo:
    def __init__(self, folder, steps):
        self.folder = folder
        self.steps = steps

    def train(self, name, steps, *flags, **settings):
        """Run the script, its lines passed on as they come."""
        place = self.folder / name
        weights = place / "weights.pt"
        place.mkdir()
        command = [sys.executable, str(SCRIPTS / "train_gpt.py"),
                   "--steps", str(steps), "--save", str(weights), *flags]
        shown = [f"{key}={value}" for key, value in settings.items()]
        if settings.pop("agent", True):
            settings["LD_PRELOAD"] = str(job.built("libckptagent.so"))
            settings["CKPT_OUT"] = str(place)
            shown.insert(0, "LD_PRELOAD=libckptagent.so")
        else:
            shown.clear()
        print(f"\n== {name}\n$", *shown, "python train_gpt.py",
              "--steps", steps, *flags, flush=True)
        step_ms = self.follow(command, job.environment(**settings))
        return Run(name, self.report(place), step_ms, load(weights))

    @staticmethod
    def follow(command, environment):
        """Run to the end; the median step that the script printed, in ms."""
        step_ms = None
        with subprocess.Popen(command, env=environment, text=True,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                print("  " + line, end="", flush=True)
                found = re.match(r"median step ([\d.]+) ms", line)
                step_ms = float(found[1]) if found else step_ms
        if process.returncode or step_ms is None:
            raise Failure(f"the run ended with status {process.returncode}")
        return step_ms

    @staticmethod
    def report(place):
        files = list(place.glob("run.*.json"))
        if len(files) > 1:
            raise Failure(f"{len(files)} run files instead of one")
        return json.loads(files[0].read_text()) if files else None

    def bounds(self):
        """Bytes: the floor, and the peak of the plain script."""
        low = self.train("the lowest peak (a few steps)", SHORT,
                         CKPT_BUDGET="min")
        high = self.train("the plain peak (a few steps)", SHORT,
                          CKPT_BUDGET="max")
        if not (low.report and high.report):
            raise Failure("the agent wrote no run file")
        floor = low.report["floor_bytes"]
        peak = high.report["peak_bytes"]["last"]
        print(f"\nThe plain script peaks at {peak / MIB:.1f} MiB; no plan "
              f"gets below {floor / MIB:.1f} MiB.")
        if not 0 < floor < peak:
            raise Failure("there is no room between floor and peak")
        return floor, peak

    def run(self):
        floor, peak = self.bounds()
        plain = self.train("without the agent", self.steps, agent=False)
        budgets = [int(floor + place * (peak - floor)) // MIB
                   for place in PLACES]
        runs = [self.train(f"budget {i} of {len(budgets)}", self.steps,
                           CKPT_BUDGET=f"{budget}M")
                for i, budget in enumerate(budgets, 1)]
        by_hand = self.train("checkpoints set by hand (measured, no budget)",
                             self.steps, "--checkpoint")
        return Table(peak, plain, runs, by_hand)


def load(path):
    return torch.load(path, weights_only=True)


def same(one, other):
    """Whether losses and final weights are equal, bit by bit."""
    weights, others = one.saved["weights"], other.saved["weights"]
    return (one.saved["losses"] == other.saved["losses"]
            and list(weights) == list(others)
            and all(torch.equal(bits(weights[k]), bits(others[k]))
                    for k in weights))


def bits(tensor):
    return tensor.view(torch.int32)


HEAD = ("", "budget", "peak", "predicted", "held", "step", "recomputed",
        "losses, weights")


class Table:
    """The closing table; ok says whether it shows what it should."""

    def __init__(self, peak, plain, runs, by_hand):
        self.plain, self.ok = plain, True
        self.rows = [HEAD, ("plain", "none", mib(peak), "", "",
                            self.step(plain), "0", "")]
        for run in runs:
            self.rows.append(self.budget_row(run))
        measured = by_hand.report["peak_bytes"]["last"]
        self.rows.append(("by hand", "none", mib(measured), "", "",
                          self.step(by_hand), "every block",
                          self.equal(by_hand, needed=False)))

    def step(self, run):
        times = run.step_ms / self.plain.step_ms
        return f"{run.step_ms:.0f} ms ({times:.2f}x)"

    def equal(self, run, needed=True):
        equal = same(self.plain, run)
        self.ok &= equal or not needed
        return "equal" if equal else "DIFFER"

    def budget_row(self, run):
        report = run.report
        if report is None:
            raise Failure(f"{run.name}: the agent wrote no run file")
        peaks, budget = report["peak_bytes"], report["budget_bytes"]
        held = peaks["last"] <= budget
        self.ok &= held
        return ("agent", mib(budget), mib(peaks["last"]),
                mib(peaks["predicted"]), "yes" if held else "NO",
                self.step(run),
                f"{run.recomputed} of {len(report['blocks'])}",
                self.equal(run))

    def print(self):
        widths = [max(map(len, column)) for column in zip(*self.rows)]
        for row in self.rows:
            print("  ".join(f"{cell:>{width}}" if place else
                            f"{cell:{width}}" for place, (cell, width)
                            in enumerate(zip(row, widths))).rstrip())


def mib(value):
    return f"{value / MIB:.1f} MiB"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    return parser.parse_args()


def main():
    options = parse()
    try:
        with tempfile.TemporaryDirectory(prefix="ckpt-demo-") as name:
            table = Demo(pathlib.Path(name), options.steps).run()
    except (Failure, job.JobError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    print("\n== Result\n")
    table.print()
    print("\nPeaks are of the last training step, parameters, gradients, "
          "optimizer state\nand activations together; the plain one was "
          "measured with CKPT_BUDGET=max.\nStep times are medians; they "
          "vary by some per cent from run to run.")
    print("\nEvery budget was held and every result is equal, bit by bit."
          if table.ok else "\nNOT everything is as it should be: see above.")
    return 0 if table.ok else 1


if __name__ == "__main__":
    sys.exit(main())
