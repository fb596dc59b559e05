"""Runs the jobs of a script in tests/machinery/jobs, with or without the agent.

The jobs of one script share one start of Python, each in a process of its own.
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
JOBS = HERE / "jobs"
sys.path.insert(0, str(HERE.parent / "e2e"))
import job  # noqa: E402

TIMEOUT = 600       # seconds, for all jobs of a script together
_slots = threading.Semaphore(2)


def names(script):
    """The jobs that a script has, without importing it."""
    found = re.search(r"JOBS = table\((.*?)\)", (JOBS / script).read_text(), re.S)
    return re.findall(r"\w+", found.group(1))


def text(path):
    return path.read_text() if path.exists() else ""


def _preloaded(folder, budget, settings):
    """Settings with which the agent is in a job, and says what it does."""
    return {"LD_PRELOAD": str(job.built("libckptagent.so")), "CKPT_OUT": folder,
            "CKPT_BUDGET": str(budget), "CKPT_LOG": "info", **settings}


def _run(words, settings):
    return subprocess.run(
        [sys.executable, *words], env=job.environment(**settings),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)


@functools.cache
def every(script, agent=True, chosen=None, budget="min", **settings):
    """All jobs of a script by name, or those chosen; an instance of job.Job each."""
    chosen = chosen or tuple(names(script))
    with tempfile.TemporaryDirectory(prefix="ckpt-jobs-") as name, _slots:
        folder = pathlib.Path(name)
        done = _run([JOBS / script, *chosen, "--folder", name],
                    _preloaded(name, budget, settings) if agent else settings)
        if done.returncode or done.stderr.strip():
            raise job.JobError(f"{script}: {done.returncode} {done.stderr[-2000:]}")
        return {each: _read(folder, each) for each in chosen}


@functools.cache
def ranks(script, agent=True, chosen=None, budget="min", processes=2, **settings):
    """Jobs under one torchrun, by "NAME RANK"; plan is what ckptagent report says."""
    chosen = chosen or tuple(names(script))
    with tempfile.TemporaryDirectory(prefix="ckpt-jobs-") as name, _slots:
        folder = pathlib.Path(name)
        settings = {"OMP_NUM_THREADS": "1", **settings}
        done = _run(
            ["-m", "torch.distributed.run", "--standalone",
             f"--nproc-per-node={processes}", JOBS / script, *chosen, "--folder",
             name], _preloaded(name, budget, settings) if agent else settings)
        if done.returncode:
            raise job.JobError(f"{script}: {done.returncode} {done.stderr[-2000:]}")
        jobs = {f"{each} {rank}": _read(folder, f"{each}.{rank}")
                for each in chosen for rank in range(processes)}
        for each in chosen if agent else ():
            spread = _spread(folder, [jobs[f"{each} {r}"] for r in range(processes)])
            for rank in range(processes):
                jobs[f"{each} {rank}"].plan = spread
        return jobs


def _spread(folder, jobs):
    """What the command says of the reports of one job's ranks."""
    with tempfile.TemporaryDirectory(prefix="ckpt-spread-") as name:
        for number, done in enumerate(jobs):
            for report in done.reports:
                pathlib.Path(name, f"run.{number}.json").write_text(json.dumps(report))
        return subprocess.run([job.built("ckptagent"), "report", name],
                              capture_output=True, text=True).stdout


_locks = collections.defaultdict(threading.Lock)


def start(script, agent=True, chosen=None):
    """The jobs of a script, run once only, however many ask for them."""
    with _locks[script, agent, chosen]:
        return (ranks if script == "ranks.py" else every)(script, agent, chosen)


def both(script, name):
    """One job of a script without and with the agent."""
    return start(script, False)[name], start(script, True)[name]


def _read(folder, name):
    status, pid = map(int, text(folder / f"{name}.status").split())
    report, out = folder / f"run.{pid}.json", folder / f"{name}.json"
    return job.Job(status, text(folder / f"{name}.stdout"),
                   text(folder / f"{name}.stderr"), 0.0,
                   [json.loads(report.read_text())] if report.exists() else [],
                   None, None, json.loads(out.read_text()) if out.exists() else {})


def assert_same_job(script, name):
    """Run a job both ways, compare, and return the one under the agent."""
    one, other = both(script, name)
    assert_same(one, other)
    return other


def assert_same(one, other):
    """The job computed, printed and returned the same; it did compute."""
    assert one.status == 0, one.stderr[-3000:]
    assert other.status == 0, other.stderr[-3000:]
    assert one.stdout == other.stdout
    assert job.differences(one, other) == []
    assert len(one.digests) > 3


def assert_at_floor(done, blocks=1):
    """Budget min: the last peak is the floor, and below the first one's.

    blocks: how many must have been recomputed, each in its last iterations.
    """
    report = done.report
    peaks = report["peak_bytes"]
    assert peaks["last"] <= report["floor_bytes"] * 1.001, peaks
    assert peaks["last"] < 0.9 * peaks["first"], peaks
    chosen = [b for b in report["blocks"] if b["decision"] == "recompute"]
    assert len(chosen) >= blocks, reasons(done)
    assert all(b["recomputes"] >= 2 for b in chosen), chosen


def reasons(done):
    return {b["name"]: b["reason"] for b in done.report["blocks"]}


def events(done, kind):
    return [e["detail"] for e in done.report["events"] if e["kind"] == kind]


def main(argv):
    """Compare the jobs of a script, for use at a terminal: SCRIPT [NAME…]."""
    script, chosen = argv[0], tuple(argv[1:]) or None
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plain, under = pool.map(lambda agent: start(script, agent, chosen),
                                (False, True))
    for name, one in plain.items():
        other = under[name]
        different = job.differences(one, other)
        same = (one.status, one.stdout, []) == (other.status, other.stdout, different)
        print("same " if same else "OTHER", name, one.status, other.status,
              different[:3])
        if one.status or not same:
            print(one.stderr[-1500:], other.stdout, other.stderr[-1500:])
        for report in other.reports:
            p = report["peak_bytes"]
            print(f"      {other.recomputed()}/{len(report['blocks'])} first "
                  f"{p['first']} last {p['last']} floor {report['floor_bytes']} "
                  f"iterations {report['iterations']} "
                  f"{ {r for r in reasons(other).values() if r} }",
                  *[f"{e['kind']}: {e['detail'][:200]}" for e in report["events"]
                    if e["kind"] != "plan"], sep="\n        ")
    print(f"{time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
