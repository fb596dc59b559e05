"""What trust costs: the proofs of a first iteration, the memory of the agent,
and whether each rank of a distributed job has the peak that its plan predicts.

As a program this is the job: `plain`, `proof` and `by_hand` print the milliseconds
of the first steps of a model, `rank` is one of the ranks of torchrun.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

MODEL, WIDE = "gpt", "wide_gpt"
REPEATS, QUICK_REPEATS, WIDE_REPEATS = 9, 3, 3
PROOF_LIMIT = 0.10
MEMORY_MIB = 8
RANKS, RANK_STEPS, PEAK_LIMIT = 2, 6, 0.001
STEADY_STEPS = 200
STEADY_BUDGET = "450K"     # of the three blocks of the tiny model, one is recomputed


# ---- the jobs -----------------------------------------------------------------


def start_torch():
    """Whatever torch does once only; no module is called."""
    import torch
    import torch.nn.functional as F
    weight = torch.randn(384, 128, requires_grad=True)
    for _ in range(3):
        q, k, v = F.linear(torch.randn(4, 192, 128), weight).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = F.layer_norm(F.dropout(F.gelu(y)), (128,))
        F.cross_entropy(y.flatten(0, 1), torch.zeros(768, dtype=torch.long)).backward()


def first_steps(name, how):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    import models

    class ByHand(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False)

    torch.set_num_threads(1)
    models.seed()
    model, args, kwargs = models.JOBS[name]()
    if how == "by_hand":
        model.h = nn.ModuleList(map(ByHand, model.h))
    # Without a state: a first iteration needs as much as the others, and is proven.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    start_torch()
    times = []
    for _ in range(3 if how == "plain" else 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        models.loss_of(model(*args, **kwargs)).backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - begin))
    print(json.dumps(times))


def rank():
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    import models
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    models.seed()
    model, args, kwargs = models.MODELS[MODEL]()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(RANK_STEPS):
        optimizer.zero_grad()
        models.loss_of(model(*args, **kwargs)).backward()
        optimizer.step()
    distributed.destroy_process_group()


# ---- the figures ---------------------------------------------------------------


def middle_budget(job, argv, **settings):
    """Halfway between the floor and the plain peak of a job."""
    def reports(budget):
        done = job.run(argv, budget, out=False, **settings)
        if done.status:
            raise job.JobError(done.stderr[-300:])
        return done.reports
    floor = max(r["floor_bytes"] for r in reports("min"))
    return (floor + max(r["peak_bytes"]["last"] for r in reports("max"))) // 2


def measure_proof(job, model, width, repeats):
    """The first iteration, in which every block is proven, against the same with
    torch.utils.checkpoint on every block: what is beyond the recomputes.
    """
    from bench_figure import Figure
    folder = {"PYTHONPATH": str(job.HERE)}
    budget = middle_budget(job, [__file__, "plain", model], **folder)
    first = {"proof": [], "by_hand": [], "plain": []}
    steps = []
    for _ in range(repeats):
        for what in first:
            agent = what == "proof"
            done = job.run([__file__, what, model], budget if agent else None,
                           agent=agent, out=False, **folder)
            if done.status:
                raise job.JobError(done.stderr[-300:])
            times = json.loads(done.stdout)
            first[what].append(times[0])
            steps += times[1:]
            if agent:
                blocks = done.report["blocks"]
                proven = sum(b["recomputes"] > 0 for b in blocks)
                if proven < len(blocks):
                    raise job.JobError(f"{proven} of {len(blocks)} blocks are proven")
    step = statistics.median(steps)
    more = min(first["proof"]) - min(first["by_hand"])
    share = more / step
    print(f"  first iteration {min(first['proof']):.0f} ms with {proven} blocks "
          f"proven, {min(first['by_hand']):.0f} ms with every block checkpointed by "
          f"hand; a plain step {step:.0f} ms")
    return Figure(f"proof in the first iteration, width {width}",
                  f"<= {100 * PROOF_LIMIT:g} % of a step", f"{share:+.1%}",
                  share <= PROOF_LIMIT, first)


def measure_memory(job, repeats):
    """Private memory of the same job with and without the agent."""
    from bench_figure import Figure
    argv = [job.HERE.parent / "hostile" / "steady.py", STEADY_STEPS]
    used = {True: [], False: []}
    for _ in range(repeats):
        for agent, found in used.items():
            done = job.run(argv, STEADY_BUDGET if agent else None, agent=agent,
                           out=False)
            if done.status:
                raise job.JobError(done.stderr[-300:])
            found.append(json.loads(done.stdout)["resident"][-1])
    more = (statistics.median(used[True]) - statistics.median(used[False])) / 2**20
    return Figure("memory of agent, shim and planner", f"<= {MEMORY_MIB} MiB",
                  f"{more:.1f} MiB", more <= MEMORY_MIB,
                  {str(agent): found for agent, found in used.items()})


def measure_ranks(job):
    """Real against predicted peak on each rank of a job under torchrun."""
    from bench_figure import Figure
    argv = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS,
            __file__, "rank"]
    path = {"PYTHONPATH": str(job.HERE)}
    done = job.run(argv, middle_budget(job, argv, **path), out=False, **path)
    if done.status or len(done.reports) != RANKS:
        raise job.JobError(done.stderr[-300:])
    peaks = [report["peak_bytes"] for report in done.reports]
    off = [p["last"] / p["predicted"] - 1 for p in peaks]
    chosen = [[b["name"] for b in report["blocks"] if b["decision"] == "recompute"]
              for report in done.reports]
    same = all(some == chosen[0] for some in chosen)
    print(f"  {len(chosen[0])} blocks recomputed, "
          f"{'the same' if same else 'not the same'} on each rank")
    return Figure(f"DDP, {RANKS} ranks: real against predicted peak",
                  f"within {100 * PEAK_LIMIT:g} % on each",
                  ", ".join(f"{o:+.3%}" for o in off),
                  same and max(map(abs, off)) <= PEAK_LIMIT, {"off": off})


def measure(quick):
    import job
    repeats = QUICK_REPEATS if quick else REPEATS
    proofs = [measure_proof(job, MODEL, 128, repeats)]
    if not quick:
        proofs.append(measure_proof(job, WIDE, 768, WIDE_REPEATS))
    return [*proofs, measure_memory(job, repeats), measure_ranks(job)], {}


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank()
    else:
        first_steps(sys.argv[2], sys.argv[1])
