"""The agent on one GPU, within a time; see scripts/gpu-check."""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import time

SCRIPTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS.parent / "tests" / "e2e"))
import bench_cuda
import cuda_cells
import gpu_report
import gpu_tests
import job
from cuda_cells import gib

MODELS = ("gpt2", "gpt2-medium", "llama-1b", "t5")
PLACES = (0.50, 0.10, 0.90, 0.25, 0.75)     # the most telling first
DTYPE = "bf16"
AT_ONCE = 3             # jobs: one on the device, the others import meanwhile
LAST_START = 25         # seconds before the end: no job is started after that
REPEATS = 2             # steps that show whether the kernels are deterministic


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check"))
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--phantom", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one model, one budget")
    parser.add_argument("--began", type=float, default=time.time())
    return parser.parse_args()


class NotRun(Exception):
    """There was no time left."""


class Clock:
    """The time that is left, and what it did not suffice for."""

    def __init__(self, began, minutes):
        self._end = began + 60 * minutes - LAST_START
        self.not_run = []           # (what, why)
        self.broken = []            # the same of jobs that failed

    def left(self):
        return self._end - time.time()

    def run(self, what, function, *args, **options):
        """What the function hands back; None: not run."""
        try:
            if self.left() <= 0:
                raise NotRun("no time was left")
            return function(*args, timeout=self.left() + LAST_START - 5, **options)
        except NotRun as why:
            self.not_run.append((what, str(why)))
        except subprocess.TimeoutExpired:
            self.not_run.append((what, "no time was left; it was ended"))
        except cuda_cells.OutOfMemory:
            self.not_run.append((what, "it does not fit this device"))
        except job.JobError as error:
            self.broken.append((what, str(error)))
        return None


def device_of(place):
    """Name and memory of the device, and the versions; None without one."""
    code = ("import json, torch; d = torch.cuda.get_device_properties(0);"
            "print(json.dumps({'device': d.name, 'memory': d.total_memory,"
            "'torch': torch.__version__, 'cuda': torch.version.cuda}))")
    done = subprocess.run([place.python, "-c", code], capture_output=True, text=True,
                          env=place.environment(agent=False), check=False)
    return json.loads(done.stdout.splitlines()[-1]) if not done.returncode else None


@dataclasses.dataclass
class Model:
    """The jobs that the cells of a model are compared with."""

    name: str
    plain: cuda_cells.Done | None = None
    again: cuda_cells.Done | None = None        # some steps of the same once more
    checkpoint: cuda_cells.Done | None = None
    least: cuda_cells.Done | None = None
    cells: list = dataclasses.field(default_factory=list)

    @property
    def deterministic(self):
        """Whether two plain jobs compute the same bits; None: not known."""
        if not (self.plain and self.again and self.again.result["digests"]):
            return None
        return self.again.result["digests"] == self.plain.result["digests"][:REPEATS]


class Check:
    """All of it."""

    def __init__(self, place, clock, real, quick):
        self.place = place
        self.clock = clock
        self.real = real            # values and times mean something
        self.steps = 6 if quick else cuda_cells.STEPS
        self.models = [Model(name) for name in (MODELS[:1] if quick else MODELS)]
        self.places = PLACES[:1] if quick else PLACES
        self.tests = []

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            self.tests = [*pool.map(self._test, gpu_tests.CASES)]
            for turn in (self._compare, self._least, *self._budgets()):
                # One turn of every model, then the next: what there is no time
                # for is missing of all alike.
                list(pool.map(turn, self.models))

    def _budgets(self):
        return [lambda model, at=at: self._cell(model, at) for at in self.places]

    def _test(self, case):
        if case.real and not self.real:
            return case.name, None, "needs a GPU"
        why = self.clock.run(case.name, case.run, self.place)
        return case.name, None if why is None else not why, why or ""

    def _start(self, model, what, **options):
        return self.clock.run(f"{model.name}, {what}", cuda_cells.start, self.place,
                              model.name, DTYPE, **{"steps": self.steps,
                                                    "digests": self.real, **options})

    def _compare(self, model):
        model.plain = self._start(model, "plain")
        model.checkpoint = self._start(model, "torch.utils.checkpoint", checkpoint=True)
        if self.real:
            model.again = self._start(model, "plain again", steps=REPEATS)
        self._say(model, "plain", model.plain)

    def _least(self, model):
        if model.plain:
            model.least = self._start(model, "the lowest peak", budget="min")

    def _cell(self, model, at):
        what = f"budget at {at:.0%}"
        if not (model.plain and model.least):
            self.clock.not_run.append((f"{model.name}, {what}",
                                       "its range of budgets is not known"))
            return
        floor, top = model.least.peak, model.plain.peak
        budget = cuda_cells.budget_at(at, floor, top)
        done = self._start(model, what, budget=budget)
        if not done:
            return
        try:
            model.cells.append(cuda_cells.cell(
                done, model.name, DTYPE, "", at, budget, floor, top,
                model.plain if model.deterministic else None))
            self._say(model, what, done)
        except job.JobError as error:
            self.clock.broken.append((f"{model.name}, {what}", str(error)))

    @staticmethod
    def _say(model, what, done):
        if done:
            print(f"  {model.name}, {what}: {gib(done.peak)} taken", flush=True)


def main():
    options = parse()
    real = not options.phantom
    with tempfile.TemporaryDirectory(prefix="ckpt-gpu-") as folder:
        place = (cuda_cells.Place(sys.executable, lock=f"{folder}/lock") if real
                 else bench_cuda.phantom_place(sys.executable))
        device = device_of(place)
        if device is None:
            print("gpu-check: torch finds no CUDA device (--phantom tries the script "
                  "on one that is not there)", file=sys.stderr)
            return 2
        print(f"{device['device']}, torch {device['torch']}", flush=True)
        check = Check(place, Clock(options.began, options.minutes), real,
                      options.quick)
        check.run()
    seconds = time.time() - options.began
    options.out.mkdir(parents=True, exist_ok=True)
    report = gpu_report.text(check, device, seconds)
    (options.out / "gpu-check.txt").write_text(report)
    (options.out / "gpu-check.json").write_text(
        json.dumps(gpu_report.document(check, device, seconds), indent=1))
    print("\n" + report, end="")
    return 0 if all(figure.met for figure in gpu_report.figures(check)) else 1


if __name__ == "__main__":
    sys.exit(main())
