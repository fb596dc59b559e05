"""What the agent costs where it has nothing to do, and what its proofs cost.

Processes that all run the same job take turns, a step each, so that a slow
moment of the machine meets all of them. Two of them run without the agent: by
how much they differ is the noise. Everything is repeated with new processes,
because where a process lies in memory alone can change its speed by percents. Of
what CKPT_PROOF costs, one process tells alone, which changes it at every step.

As a program this is the job, of the model that it is told: it takes a step for each
line of its input, under the CKPT_PROOF that the line names, if any, and prints the
milliseconds of the processor that the step took.
"""

from __future__ import annotations

import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from bench_trust import MODEL, WIDE, middle_budget

PROOF, PROOFS = "proof", ("always", "first")
WARM = 5
GENERATIONS, ROUNDS = 6, 16
QUICK_GENERATIONS, QUICK_ROUNDS = 2, 8
WIDE_GENERATIONS, WIDE_ROUNDS = 2, 6
LIMIT, PROOF_LIMIT = 0.01, 0.015


def job_main(folder, name):
    sys.path.insert(0, folder)
    import torch

    import models
    torch.set_num_threads(1)
    models.seed()
    model, args, kwargs = models.JOBS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for line in sys.stdin:
        if line.strip():
            session = sys.modules["ckptshim.boot"]._started
            session.controller.settings.proof = line.strip()
        begin = time.process_time()
        optimizer.zero_grad()
        loss = models.loss_of(model(*args, **kwargs))
        loss.backward()
        optimizer.step()
        del loss
        print(1000 * (time.process_time() - begin), flush=True)


class Worker:
    """One process that takes a step when told to."""

    def __init__(self, job, model, settings, folder):
        if settings is not None:
            settings = {"LD_PRELOAD": str(job.built("libckptagent.so")),
                        "CKPT_OUT": str(folder), "CKPT_LOG": "error",
                        **settings}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(job.HERE), model], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=job.environment(**(settings or {})))

    def step(self, proof=""):
        self.process.stdin.write(f"{proof}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def variants(budget):
    """Name -> settings of the agent, None for none."""
    return {
        "plain": None, "plain again": None,
        "no budget": {},
        "budget above need": {"CKPT_BUDGET": "64G"},
        PROOF: {"CKPT_BUDGET": budget},
    }


def generation(job, model, settings, rounds):
    """Name -> the milliseconds of each round, all taking turns."""
    times = {}
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-") as folder:
        workers = {name: Worker(job, model, given, pathlib.Path(folder) / name)
                   for name, given in settings.items()}
        for count in range(WARM + rounds):
            turns = [(name, "") for name in workers if name != PROOF]
            turns += [(PROOF, proof) for proof in PROOFS]
            random.shuffle(turns)
            for name, proof in turns:
                took = workers[name].step(proof)
                if count >= WARM:
                    times.setdefault(proof or name, []).append(took)
        for worker in workers.values():
            worker.end()
    return times


def excess(times, name, against):
    """Median of name over against in the same round, less one."""
    return statistics.median(
        one / other for one, other in
        zip(times[name], times[against], strict=True)) - 1


def budget_of(job, model):
    return str(middle_budget(job, [job.HERE / "models.py", model, "--steps", 4]))


def small_generations(job, quick):
    settings = variants(budget_of(job, MODEL))
    return [generation(job, MODEL, settings, QUICK_ROUNDS if quick else ROUNDS)
            for _ in range(QUICK_GENERATIONS if quick else GENERATIONS)]


def wide_generations(job):
    settings = {PROOF: {"CKPT_BUDGET": budget_of(job, WIDE)}}
    return [generation(job, WIDE, settings, WIDE_ROUNDS)
            for _ in range(WIDE_GENERATIONS)]


def measure(quick):
    import job
    from bench_figure import Figure
    small = small_generations(job, quick)
    noise = max(abs(excess(times, "plain again", "plain")) for times in small)

    def figure(name, generations, what, against, limit, doubt=""):
        found = [excess(times, what, against) for times in generations]
        value = statistics.mean(found)
        return Figure(name, f"<= {100 * limit:g} % of a step", f"{value:+.2%}{doubt}",
                      value <= limit, {"each": found, "noise": noise})

    doubt = f" (noise {noise:.2%})"
    always = "CKPT_PROOF=always against first"
    figures = [
        figure("agent loaded, no budget", small, "no budget", "plain", LIMIT, doubt),
        figure("agent loaded, budget above need", small, "budget above need", "plain",
               LIMIT, doubt),
        figure(f"{always}, width 128", small, *PROOFS, PROOF_LIMIT)]
    if not quick:
        figures.append(figure(f"{always}, width 768", wide_generations(job), *PROOFS,
                              PROOF_LIMIT))
    return figures, {"step_ms": statistics.median(
        took for times in small for took in times["plain"])}


if __name__ == "__main__":
    job_main(*sys.argv[1:])
