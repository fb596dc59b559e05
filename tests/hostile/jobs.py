"""Jobs that do something unusual in the middle of their training.

    python jobs.py FOLDER NAME…

What a job prints tells every bit that it computed. Each runs in a child of its
own, forked before torch has allocated anything; its standard output and error
go to FOLDER/NAME.out and FOLDER/NAME.err, its process number and exit status to
standard output.
"""

import contextlib
import gc
import os
import pathlib
import signal
import sys
import threading
import time
import weakref

import torch

from tiny import Block, Model, Training, about_to_fork, digest, gradients

STEPS = 6
TIMEOUT = 120


def in_thread(function, *arguments):
    """The result of a call on another thread, while this one waits in join()."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()
    thread.join(TIMEOUT)
    return results[0] if results else "nothing"


def never_backward():
    """Forwards with gradients, whose graphs are thrown away."""
    training = Training()
    for _ in range(STEPS):
        print(digest([training.model(training.x)]))
    print(training.state())


def backward_on_another_thread():
    training = Training()
    for _ in range(STEPS):
        print(training.step(lambda loss: in_thread(loss.backward)))
    print(training.state())


def all_on_another_thread():
    """The main thread sits in join() from before the first allocation."""
    def work():
        training = Training()
        steps = []
        for _ in range(5 * STEPS):
            time.sleep(0.02)        # the agent waits for the main thread, in vain
            steps.append(training.step())
        return [*steps, training.state()]
    print(*in_thread(work), sep="\n")


def threads_born_before_and_after():
    """Threads that take turns; one is older than torch's first allocation."""
    turn, done = threading.Semaphore(0), threading.Semaphore(0)
    shared = []

    def old():
        for _ in range(STEPS):
            turn.acquire()
            print(shared[0].step())
            done.release()
    elder = threading.Thread(target=old)
    elder.start()
    shared.append(Training())
    for _ in range(STEPS):
        turn.release()
        done.acquire()
        print(in_thread(shared[0].step))
    elder.join()
    print(shared[0].state())


def exit_in_forward(leave=sys.exit):
    training = Training()

    class Last(Block):
        def forward(self, x):
            if steps == 3:
                print("leaving", flush=True)
                leave(3)
            return super().forward(x)
    training.model.blocks[2] = Last()
    for steps in range(STEPS):      # noqa: B007
        print(training.step())


def exit_at_once_in_forward():
    exit_in_forward(os._exit)


def raise_in_forward():
    """First caught, then not."""
    training = Training()
    steps = -1

    class Bad(Block):
        def forward(self, x):
            x = super().forward(x)
            if steps in (2, 4):
                raise KeyError(f"the forward of step {steps}")
            return x
    training.model.blocks[2] = Bad()
    for steps in range(STEPS):
        try:
            print(training.step())
        except KeyError as error:
            print(repr(error), digest([torch.get_rng_state()]), flush=True)
            if steps == 4:
                raise


class Trap(torch.autograd.Function):
    """The identity, whose backward raises while it is armed."""

    armed = False

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if Trap.armed:
            raise KeyError("the backward")
        return gradient


def raise_in_backward():
    """Inside a block, so that other blocks are recomputed before and after."""
    training = Training()

    class Trapped(Block):
        def forward(self, x):
            return Trap.apply(super().forward(x))
    training.model.blocks[2] = Trapped()
    for steps in range(STEPS):
        Trap.armed = steps in (2, 4)
        try:
            print(training.step())
        except KeyError as error:
            print(repr(error), gradients(training.model), flush=True)
            if steps == 4:
                raise


def delete_the_model():
    """Between forward and backward, and then another one of the same class."""
    for _ in range(3):
        training = Training()
        for _ in range(STEPS):
            print(training.step())
        parameters = list(training.model.parameters())
        loss = training.loss()
        gone = weakref.ref(training.model)
        del training
        loss.backward()
        print(digest(p.grad for p in parameters))
        del loss, parameters
        gc.collect()
        print("gone" if gone() is None else "still there")


def swap_forwards():
    """In the class, in an instance, in the root's class, and back."""
    training = Training()
    block = training.model.blocks[1]
    ordinary = Block.forward

    def scaled(self, x):
        return 2 * ordinary(self, x)

    def rooted(self, x):
        return 3 * whole(self, x)
    for _ in range(STEPS):
        print("ordinary", training.step())
    Block.forward = scaled
    for _ in range(STEPS):
        print("class", training.step())
    Block.forward = ordinary
    block.forward = scaled.__get__(block)
    for _ in range(STEPS):
        print("instance", training.step())
    del block.forward
    whole, Model.forward = Model.forward, rooted
    for _ in range(STEPS):
        print("root", training.step())
    Model.forward = whole
    for _ in range(STEPS):
        print("again", training.step())
    print(training.state())


def shim_locks():
    """Every lock that the shim has, if it is there."""
    found = [sys.modules[name] for name in ("ckptshim.stack", "ckptshim.boot")
             if name in sys.modules]
    return [found[0].room._lock, found[1]._started.controller.frames._lock] \
        if found else []


def fork_with_every_lock_held():
    """By another thread, which the child does not have."""
    training = Training()
    for _ in range(STEPS):
        print(training.step(), flush=True)
    held, end = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in shim_locks():
                stack.enter_context(lock)
            held.set()
            end.wait(TIMEOUT)
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(TIMEOUT)
        for _ in range(STEPS):
            print(training.step(), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    end.set()
    holder.join()
    print(training.state())


JOBS = {f.__name__: f for f in (
    never_backward, backward_on_another_thread, all_on_another_thread,
    threads_born_before_and_after, exit_in_forward, exit_at_once_in_forward,
    raise_in_forward, raise_in_backward, delete_the_model, swap_forwards,
    fork_with_every_lock_held)}



def become(folder, name):
    """In a child: from now on the process of this job alone."""
    for number, end in ((1, "out"), (2, "err")):
        file = os.open(folder / f"{name}.{end}",
                       os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.dup2(file, number)
        os.close(file)


def main():
    folder = pathlib.Path(sys.argv[1])
    about_to_fork()
    for name in sys.argv[2:]:
        child = os.fork()
        if not child:
            become(folder, name)
            return JOBS[name]()     # and this process ends in the ordinary way
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(name, child, status, flush=True)


if __name__ == "__main__":
    main()
