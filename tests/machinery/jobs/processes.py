"""Jobs with other processes: workers, pools, children, pickles and copies."""

import copy
import io
import multiprocessing
import os
import pickle
import subprocess
import sys

import torch
from common import WIDTH, Tower, batch, loss_of, main, sgd, table, train


class Rows(torch.utils.data.Dataset):
    """Rows made in a worker, with a forward of a small model in there."""

    def __init__(self, rows):
        self.rows = rows
        self.model = torch.nn.Linear(WIDTH, WIDTH)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        with torch.no_grad():
            return self.model(self.rows[place])


def loading(context, steps, record):
    """Batches come from two workers."""
    model = Tower(4)
    optimizer = sgd(model)
    loader = torch.utils.data.DataLoader(
        Rows(batch(8 * (steps + 1))), 8, num_workers=2, shuffle=True,
        multiprocessing_context=context)
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        value = loss_of(model, x)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def loader_fork(steps, record):
    loading("fork", steps, record)


def loader_spawn(steps, record):
    loading("spawn", steps, record)


def loader_forkserver(steps, record):
    loading("forkserver", steps, record)


def child(steps, queue):
    """A child that trains a model of its own."""
    from models import Record, seed
    torch.set_num_threads(1)
    seed(1)
    record = Record()
    train(Tower(3), steps, record)
    queue.put(record.values)


def pool(steps, record):
    """Processes of each kind train while the parent trains too."""
    at = [multiprocessing.get_context(kind) for kind in ("fork", "spawn")]
    queues = [context.SimpleQueue() for context in at]

    def each(step):
        if step != 4:
            return
        for context, queue in zip(at, queues):
            process = context.Process(target=child, args=(steps, queue))
            process.start()
            record.values[f"{context.get_start_method()} child"] = repr(queue.get())
            process.join()
            record.values[f"{context.get_start_method()} status"] = process.exitcode
    train(Tower(4), steps, record, each=each)


def subprocesses(steps, record):
    """What children that are not Python print, and their environment."""
    def each(step):
        if step == 3:
            record.values["shell"] = subprocess.run(
                ["sh", "-c", "echo $((1 + 2)); env | grep -c ^PATH="],
                capture_output=True, text=True).stdout
            record.values["python"] = subprocess.run(
                [sys.executable, "-c", "import torch; print(torch.ones(3).sum())"],
                capture_output=True, text=True).stdout
        if step == 4:
            pid = os.fork()
            if not pid:
                os._exit(7)
            record.values["fork"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    train(Tower(4), steps, record, each=each)


def copies(steps, record):
    """The live model is copied, pickled and saved between forward and backward;
    the copy is trained on."""
    model, x = Tower(4), batch()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss_of(model, x)
        if step == 4:
            twin = copy.deepcopy(model)
            raw = pickle.dumps(model)
            again = pickle.loads(raw)
            record.values["pickle"] = len(raw)
            record.values["names"] = repr([n for n, _ in again.named_modules()])
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            loaded = torch.load(file, weights_only=False)
            record.values["dict"] = repr([sorted(vars(m)) for m in loaded.modules()])
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)
    for other in (twin, again, loaded):
        train(other, 5, record)


def by_value(steps, record):
    """Classes of the script, pickled by value, load in a process of any kind."""
    cloudpickle = __import__("cloudpickle")
    model = Own()
    train(model, steps, record)
    raw = cloudpickle.dumps(model)
    script = ("import sys, pickle, torch; torch.set_num_threads(1); "
              "model = pickle.loads(sys.stdin.buffer.read()).eval(); "
              "print(float(model(torch.ones(2, 3, 64)).double().sum()).hex())")
    clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    for label, environment in (("without", clean), ("with", dict(os.environ))):
        done = subprocess.run([sys.executable, "-c", script], input=raw,
                              capture_output=True, env=environment)
        record.values[label] = done.stdout.decode()
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
    record.number("here", model.eval()(torch.ones(2, 3, 64)).double().sum())


class Part(torch.nn.Module):
    """A block that lives in __main__."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, *, scale=1.0):
        return x + scale * self.down(torch.tanh(self.up(x)))


class Child(Part):
    def forward(self, x, **options):
        return super().forward(x, **options).sin()


class Own(torch.nn.Module):
    """A model that lives in __main__."""

    def __init__(self):
        super().__init__()
        self.h = torch.nn.ModuleList([Part(), Child(), Part(), Child()])

    def forward(self, x):
        for block in self.h:
            x = block(x, scale=0.5)
        return x


JOBS = table(loader_fork, loader_spawn, loader_forkserver, pool, subprocesses, copies,
             by_value)

if __name__ == "__main__":
    main(JOBS, __doc__)
