"""Jobs with torch.compile, TorchScript and torch.export."""

import torch
import torch._dynamo
import torch._inductor.compile_fx  # here, so that the jobs share the import
import torch.nn as nn
from common import WIDTH, Tower, batch, loss_of, main, table, train

from models import Block


class Counter:
    """A backend that runs a graph as it stands and counts what it was given."""

    def __init__(self, inner="aot_eager"):
        self.graphs = 0
        self.inner = torch._dynamo.lookup_backend(inner)

    def __call__(self, graph, inputs):
        self.graphs += 1
        return self.inner(graph, inputs)


def stats(record, counter):
    """How often was compiled, and how often a graph broke."""
    counters = torch._dynamo.utils.counters
    record.values["graphs"] = counter.graphs
    record.values["breaks"] = sum(counters["graph_break"].values())
    record.values["recompiles"] = counters["stats"]["unique_graphs"]


def whole(steps, record):
    counter = Counter()
    model = Tower(3, dropout=0.0)
    compiled = torch.compile(model, backend=counter)
    train(compiled, steps, record)
    stats(record, counter)


def in_place(steps, record):
    """model.compile(), which leaves the class as it is."""
    counter = Counter()
    model = Tower(3, dropout=0.0)
    model.compile(backend=counter)
    train(model, steps, record)
    stats(record, counter)


def blocks(steps, record):
    """Every block is compiled, by OptimizedModule."""
    counter = Counter()
    model = Tower(3, dropout=0.0)
    for place, block in enumerate(model.h):
        model.h[place] = torch.compile(block, backend=counter, fullgraph=True)
    train(model, steps, record)
    stats(record, counter)


def blocks_in_place(steps, record):
    """Two of the blocks are compiled in place; the others are plain."""
    counter = Counter()
    model = Tower(5, dropout=0.0)
    for block in model.h[:2]:
        block.compile(backend=counter, fullgraph=True)
    train(model, steps, record)
    stats(record, counter)


def inside_blocks(steps, record):
    """A part of each block is compiled: what is around it may be recomputed."""
    counter = Counter()

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(WIDTH, 2, 4 * WIDTH, 0.0)
            self.more = nn.Linear(WIDTH, 4 * WIDTH)
            self.less = nn.Linear(4 * WIDTH, WIDTH)
            self.fast = torch.compile(self.block, backend=counter, fullgraph=True)

        def forward(self, x):
            return x + self.less(torch.tanh(self.more(self.fast(x))))
    train(Tower(3, Around), steps, record)
    stats(record, counter)


def function(steps, record):
    """A compiled function, not a module, inside the blocks."""
    counter = Counter()

    @torch.compile(backend=counter, fullgraph=True)
    def mix(y, gate):
        return torch.tanh(y) * torch.sigmoid(gate) + y.square()

    class Mixes(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.gate = nn.Linear(WIDTH, 4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            return x + self.down(mix(self.up(x), self.gate(x)))
    train(Tower(5, Mixes), steps, record)
    stats(record, counter)


def step(steps, record):
    """The loss is compiled together with the model, from step 4 on."""
    counter = Counter()
    model = Tower(3, dropout=0.0)
    compiled = torch.compile(loss_of, backend=counter)
    at = [0]

    def loss(model, x):
        return (compiled if at[0] >= 4 else loss_of)(model, x)
    train(model, steps, record, loss, lambda step: at.__setitem__(0, step))
    stats(record, counter)


def later(steps, record):
    """Blocks are compiled in place after the agent has patched their class."""
    counter = Counter()
    model = Tower(3, dropout=0.0)

    def each(step):
        if step == 4:
            for block in model.h[:2]:
                block.compile(backend=counter, fullgraph=True)
    train(model, steps, record, each=each)
    stats(record, counter)


def breaking(steps, record):
    """The whole model, with a graph break of its own in every block."""
    counter = Counter()

    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(WIDTH, 2, 4 * WIDTH, 0.0)

        def forward(self, x):
            y = self.block(x)
            torch._dynamo.graph_break()
            return y + torch.tanh(x)
    train(torch.compile(Tower(2, Breaks), backend=counter), steps, record)
    stats(record, counter)


def inductor(steps, record):
    """Compiled to machine code, one block of four."""
    model = Tower(4, dropout=0.0)
    model.h[1].compile(fullgraph=True)
    train(model, steps, record)
    counters = torch._dynamo.utils.counters
    record.values["graphs"] = counters["stats"]["unique_graphs"]
    record.values["breaks"] = sum(counters["graph_break"].values())


def scripted(steps, record):
    """The whole model is scripted, after a few ordinary steps."""
    model = Tower(4, lambda: nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                           nn.Linear(4 * WIDTH, WIDTH)))
    train(model, steps, record)
    train(torch.jit.script(model), steps, record)


def scripted_blocks(steps, record):
    """Two blocks are scripted, one is traced, the others are plain."""
    model = Tower(6, lambda: nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(),
                                           nn.Linear(4 * WIDTH, WIDTH)))
    model.h[1] = torch.jit.script(model.h[1])
    model.h[2] = torch.jit.script(model.h[2])
    model.h[3] = torch.jit.trace(model.h[3], batch())
    train(model, steps, record)


def traced_halfway(steps, record):
    """A trace of the live model in the middle of training, and at its end."""
    model, x = Tower(4, dropout=0.0), batch()

    def each(step):
        if step in (1, 5):
            traced = torch.jit.trace(model, x)
            record.tensor(f"{step} traced", traced(x))
            record.values[f"{step} code"] = traced.code
    train(model, steps, record, each=each)


def exported(steps, record):
    """torch.export, strict or not, of the live model and after training."""
    model, x = Tower(4, dropout=0.0), batch()

    def export(label):
        for strict in (False, True):
            program = torch.export.export(model, (x,), strict=strict)
            text = [f"{n.op} {n.target}" for n in program.graph.nodes]
            record.values[f"{label} graph {strict}"] = "\n".join(text)
            record.tensor(f"{label} out {strict}", program.module()(x))

    def each(step):
        if step == 4:
            export(step)
    train(model, steps, record, each=each)
    export("end")


def fx_traced(steps, record):
    """torch.fx of the live model; the graph module is trained on."""
    model = Tower(4, lambda: nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                           nn.Linear(4 * WIDTH, WIDTH)))
    train(model, steps, record)
    graph = torch.fx.symbolic_trace(model)
    record.values["code"] = graph.code
    train(graph, steps, record)


JOBS = table(whole, in_place, blocks, blocks_in_place, inside_blocks, function, step,
             later, breaking, inductor, scripted, scripted_blocks, traced_halfway,
             exported, fx_traced)

if __name__ == "__main__":
    main(JOBS, __doc__)
