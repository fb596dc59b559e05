"""Trains a tiny model, and again from every call of the shim that failed.

    python faults.py NAMES EACH error|signal

Runs under an instrumented shim (instrument.py); NAMES is a JSON list of the
calls' names, of which one in EACH is made to fail. The first time that a call
is due, this process forks: in the child the call fails with MemoryError and all
others succeed, in the parent it goes on. The children fork by the bare system
call, so that nothing takes the child for another process. One JSON object a
child goes to standard output.

With "signal" nothing fails, but a signal arrives whose handler raises Late, an
exception of the job's; the child trains once more after it.
"""

import atexit
import builtins
import ctypes
import json
import os
import resource
import signal
import sys

from tiny import Training

AT_ONCE = 2     # children
STEPS = 6
FORK = 57       # the system call, on x86-64
SECONDS = 60    # of processor time, until a child counts as stuck

syscall = ctypes.PyDLL(None).syscall
pid = os.getpid()
names = json.loads(open(sys.argv[1]).read())
each = int(sys.argv[2])
what = sys.argv[3]
seen = set()
running = []
failed = None       # the name of the call that failed, in a child
callers = []        # functions of the shim that were running then, outermost first


class Late(Exception):
    """What the handler raises."""


def strike(*_):
    raise Late


signal.signal(signal.SIGUSR1, strike)


def reap(at_most):
    while len(running) > at_most:
        child = running.pop(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps({"site": "?", "status": status}), flush=True)


def take_spill():
    """A copy of the parent's spill under the same descriptor."""
    for name in os.listdir("/proc/self/fd"):
        link = f"/proc/self/fd/{name}"
        if os.path.islink(link) and "ckptagent-" in os.readlink(link):
            copy = os.memfd_create("spill")
            size = os.fstat(int(name)).st_size
            os.write(copy, os.pread(int(name), size, 0))
            os.dup2(copy, int(name))
            os.close(copy)


def shim_functions(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        if "ckptshim" in code.co_filename:
            found.append(f"{os.path.basename(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return found[::-1]


def site(number):
    """A call is due."""
    global failed
    if failed is not None or number in seen:
        return
    seen.add(number)
    if number % each:
        return
    reap(AT_ONCE - 1)
    child = syscall(FORK)
    if child:
        running.append(child)
        return
    failed = names[number]
    callers[:] = shim_functions(sys._getframe(1))
    os.getpid = lambda: pid
    os.unlink = lambda *_, **__: None       # the parent's files are still its own
    take_spill()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    os.dup2(log.fileno(), 2)
    os.ftruncate(2, 0)
    if what == "error":
        raise MemoryError("injected")
    signal.raise_signal(signal.SIGUSR1)


def train():
    """A digest of every step's gradients, or what the job was told instead."""
    try:
        training = Training(depth=3)
        return [training.step() for _ in range(STEPS)] + [training.state()]
    except Late:
        return ["Late", *train()]
    except BaseException as error:
        return [f"{type(error).__name__}: {error}"]


def tell(result):
    os.lseek(2, 0, os.SEEK_SET)
    lines = os.read(2, 1 << 20).decode()
    os.write(1, json.dumps({"site": failed, "result": result, "callers": callers,
                            "log": lines.splitlines()}).encode() + b"\n")


class Log:
    """A new file for each child's standard error, made in the child."""

    def fileno(self):
        return os.memfd_create("log")


log = Log()
builtins.ckpt_site = site
result = train()
atexit._run_exitfuncs()
if failed is not None:
    tell(result)
    os._exit(0)
reap(0)
print(json.dumps({"site": None, "result": result, "sites": len(seen)}), flush=True)
os._exit(0)
