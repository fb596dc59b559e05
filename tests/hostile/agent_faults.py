"""Trains a tiny model once for each call of the agent to libc that can fail.

    python agent_faults.py

Runs with faults.c preloaded. The first child only tells which calls there are;
in each other child one of them fails. One JSON object a child goes to standard
output.
"""

import ctypes
import json
import os
import sys

from tiny import Training, about_to_fork

faults = ctypes.CDLL(None)
faults.faults_name.restype = ctypes.c_char_p


def train():
    training = Training(depth=3)
    return [training.step() for _ in range(6)] + [training.state()]


def child(number):
    """In a child: what there is to tell goes to the pipe that is its output."""
    faults.faults_arm(number)
    result = train()
    names = [faults.faults_name(i).decode() for i in range(faults.faults_count())]
    print(json.dumps({"result": result, "names": names}))


def run(number):
    """The child's output, standard error and status; None in the child."""
    pipes = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        for target, (_, end) in enumerate(pipes, 1):
            os.dup2(end, target)
        return child(number)
    texts = []
    for start, end in pipes:
        os.close(end)
        with open(start) as file:
            texts.append(file.read())
    return texts, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    about_to_fork()
    number = before = faults.faults_count()
    count = before + 1
    while number <= count:      # the first one is of no call at all
        which = -1 if number == before else number - 1
        outcome = run(which)
        if outcome is None:
            return              # a child, which ends in the ordinary way
        (out, err), status = outcome
        told = json.loads(out) if out else {"result": None, "names": []}
        if which < 0:
            count = len(told["names"])
            names = told["names"]
        print(json.dumps({"site": names[which] if which >= 0 else None,
                          "number": which, "result": told["result"],
                          "log": err.splitlines(), "status": status}), flush=True)
        number += 1


if __name__ == "__main__":
    sys.exit(main())
