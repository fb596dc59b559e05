"""Trains a tiny model once for each thing that CKPT_OUT or a stream may be.

    python outs.py FOLDER NAME…

CKPT_OUT is FOLDER/out; what stands there is made before each child. A child's
bits go to FOLDER/NAME.out, its standard error to FOLDER/NAME.err; what it left
in its folders, its number and its exit status to standard output as JSON.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

from tiny import Training, about_to_fork

STEPS = 8


# ---- what stands at `out`; each gets the path, and may hand back a clean-up ---


def folder(out):
    out.mkdir()


def nothing(out, training=None):
    """It is made, with the folders above it."""


def link(out):
    (out.parent / "real").mkdir()
    out.symlink_to("real")


def dangling_link(out):
    out.symlink_to("nowhere")


def file(out):
    out.write_text("kept")


def fifo(out):
    os.mkfifo(out)


def unwritable(out):
    out.symlink_to("/proc/self")


def full(out):
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(out)],
                   check=True)
    return lambda: subprocess.run(["umount", str(out)], check=True)


def taken_names(out):
    """By folders."""
    for name in ("profile.json", "plan.json"):
        (out / name).mkdir(parents=True)


def planted_links(out):
    """A stranger wants us to write where the links lead."""
    out.mkdir()
    (out.parent / "victim").write_text("kept")
    for name in ("profile.json", "plan.json"):
        (out / name).symlink_to("../victim")


WAYS = (folder, nothing, link, dangling_link, file, fifo, unwritable, full,
        taken_names, planted_links)


# ---- what the child does to itself; each gets `out` and the training ---------


def removed(out, training):
    shutil.rmtree(out)


def small_files(out, training):
    """ulimit -f, as a quota."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def no_descriptors(out, training):
    """ulimit -n, and all in use."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def other_folder(out, training):
    os.chdir("/")


def closed(out, training):
    for number in (0, 1, 2):
        os.close(number)


def closed_error(out, training):
    """And written to all the same, by a library that does not look."""
    os.close(2)

    def write(*_):
        try:
            os.write(2, b"a line for standard error\n" * 1000)
        except OSError:
            pass
    training.model.blocks[-1].up.register_forward_hook(write)


def killed(out, training):
    os.kill(os.getpid(), signal.SIGKILL)


DEEDS = (removed, small_files, no_descriptors, other_folder, closed, closed_error,
         killed)


def train(base, name):
    """Nothing but arithmetic may fail here: the result is a file of bits."""
    results = os.open(base / f"{name}.out", os.O_WRONLY | os.O_CREAT, 0o600)
    error = os.open(base / f"{name}.err", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(error, 2)
    os.close(error)
    deeds = {f.__name__: f for f in DEEDS}
    training = Training()
    for step in range(STEPS):
        if step == (0 if name.startswith("closed") else 4):
            deeds.get(name, nothing)(base / "out", training)
        os.write(results, f"{training.step()}\n".encode())
    os.write(results, f"{training.state()}\n".encode())
    if name not in deeds:
        tell_of_spill()


def tell_of_spill():
    """The spill has no name any more, but this process has it open."""
    for path in pathlib.Path("/proc/self/fd").iterdir():
        if path.is_symlink() and "ckptagent-" in os.readlink(path):
            mode = os.fstat(int(path.name)).st_mode & 0o777
            print(f"a spill of mode {mode:o}", file=sys.stderr, flush=True)


def left(base):
    """Path -> mode of every file below, the children's own output aside."""
    return {str(p.relative_to(base)): oct(p.lstat().st_mode & 0o777)
            for p in sorted(base.rglob("*"))
            if (p.is_symlink() or not p.is_dir()) and p.suffix not in (".out", ".err")}


def tidy(base):
    for path in base.iterdir():
        if path.is_symlink() or not path.is_dir():
            if path.suffix not in (".out", ".err"):
                path.unlink()
        else:
            shutil.rmtree(path)


def main():
    base = pathlib.Path(sys.argv[1])
    ways = {f.__name__: f for f in WAYS}
    about_to_fork()
    for name in sys.argv[2:]:
        clean_up = ways.get(name, folder)(base / "out") or (lambda: None)
        child = os.fork()
        if not child:
            return train(base, name)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        files = left(base)
        clean_up()
        tidy(base)
        print(json.dumps({"name": name, "pid": child, "status": status,
                          "left": files}), flush=True)


if __name__ == "__main__":
    main()
