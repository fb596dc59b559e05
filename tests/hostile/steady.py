"""Trains a tiny model for many steps and prints memory and time on the way.

    python steady.py STEPS

One JSON object: resident bytes and Python's own blocks after each tenth of the
steps, and each step's milliseconds.
"""

import gc
import json
import sys
import time

from tiny import Training

PARTS = 10


def resident():
    """Bytes of private memory in use: pages that this process wrote."""
    with open("/proc/self/smaps_rollup") as table:
        return sum(1024 * int(line.split()[1]) for line in table
                   if line.startswith(("Private_Dirty", "Swap:")))


def main():
    steps = int(sys.argv[1])
    training = Training(depth=3, rows=64)
    memory, blocks, times = [], [], []
    for step in range(1, steps + 1):
        begin = time.perf_counter()
        training.step()
        times.append(1000 * (time.perf_counter() - begin))
        if step % (steps // PARTS) == 0:
            gc.collect()
            memory.append(resident())
            blocks.append(sys.getallocatedblocks())
    print(json.dumps({"resident": memory, "blocks": blocks, "step_ms": times}))


if __name__ == "__main__":
    main()
