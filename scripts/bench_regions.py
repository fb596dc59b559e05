"""What a recomputed region costs beyond its recompute: the agent's frames
against torch.utils.checkpoint, in one process, taking turns.

As a program this is the job that is measured; it prints medians as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

BLOCKS, WIDTH, BATCH = 50, 16, 2
ROUNDS, QUICK_ROUNDS, WARM = 300, 60, 20


def job_main(rounds):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(),
                nn.Linear(WIDTH, WIDTH))

        def forward(self, x):
            return x + self.body(x)

    class Framed(Plain):
        """The only class that CKPT_BLOCKS names."""

        def forward(self, x):
            return x + self.body(x)

    class Row(nn.Module):
        def __init__(self, block, by_hand=False):
            super().__init__()
            self.by_hand = by_hand
            self.h = nn.ModuleList(block() for _ in range(BLOCKS))

        def forward(self, x):
            for block in self.h:
                x = (checkpoint(block, x, use_reentrant=False)
                     if self.by_hand else block(x))
            return x.sum()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = {"plain": Row(Plain), "by_hand": Row(Plain, True),
            "frames": Row(Framed)}
    steps = {name: torch.optim.SGD(row.parameters(), lr=0.0)
             for name, row in rows.items()}
    x = torch.randn(BATCH, WIDTH)
    times = {name: [] for name in (*rows, "forward")}
    for _ in range(WARM + rounds):
        for name, row in rows.items():
            begin = time.perf_counter()
            loss = row(x)
            middle = time.perf_counter()
            loss.backward()
            times[name].append(time.perf_counter() - begin)
            if name == "plain":
                times["forward"].append(middle - begin)
            steps[name].step()
            steps[name].zero_grad()
    print(json.dumps({name: 1e6 * statistics.median(some[WARM:]) / BLOCKS
                      for name, some in times.items()}))


def measure(quick):
    import job
    from bench_figure import Figure
    done = job.run(
        [__file__, QUICK_ROUNDS if quick else ROUNDS], "min", out=False,
        CKPT_BLOCKS="class:Framed", CKPT_PLANNER="checkpoint_all")
    if done.status:
        raise job.JobError(f"status {done.status}: {done.stderr[-600:]}")
    us = json.loads(done.stdout)
    framed = [b for b in done.report["blocks"] if b["class"] == "Framed"]
    if len(framed) != BLOCKS or any(b["decision"] != "recompute"
                                    for b in framed):
        raise job.JobError("not every framed block was recomputed")
    cost = {name: us[name] - us["plain"] - us["forward"]
            for name in ("by_hand", "frames")}
    ratio = cost["frames"] / cost["by_hand"]
    return [Figure(
        "region cost beyond its recompute", "<= half of torch's",
        f"{cost['frames']:.0f} us against {cost['by_hand']:.0f} us "
        f"({ratio:.2f}x)", ratio <= 0.5, {**us, **{
            "beyond_" + k: v for k, v in cost.items()}})], {}


if __name__ == "__main__":
    job_main(int(sys.argv[1]))
