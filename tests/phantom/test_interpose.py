"""A library that is preloaded before the phantom sees its calls."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Without versions, by an anonymous version script, as the agent's."""
    folder = tmp_path_factory.mktemp("interpose")
    script, made = folder / "map", folder / "libinterpose.so"
    script.write_text("{ global: cuda*; _ZN3c10*; interposed; local: *; };\n")
    subprocess.run(
        ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
         "-shared", "-fPIC", f"-Wl,--version-script={script}", "-o", str(made),
         str(Path(__file__).with_name("interpose.c")), "-ldl"], check=True)
    return made


JOB = """
def counts():
    out = (ctypes.c_int64 * 6)()
    ctypes.CDLL(None).interposed(out)
    return list(out)
torch.cuda.init()
before = counts()
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
model(torch.ones(64, 1024, device="cuda")).sum().backward()
del model
torch.cuda.empty_cache()            # is not reported
kept = torch.empty(3, device="cuda")
now = [a - b for a, b in zip(counts(), before)]
stats = torch.cuda.memory_stats()
result = [now, [stats["segment.all.allocated"], stats["segment.all.freed"],
                stats["reserved_bytes.all.allocated"],
                stats["allocation.all.allocated"] + stats["allocation.all.freed"],
                stats["allocated_bytes.all.current"],
                stats["reserved_bytes.all.current"]]]
"""


def test_it_counts_what_torch_counts(phantom, library):
    seen, stats = phantom.run(JOB, before=[library]).result
    assert stats[0] > 3 and stats[1] > 1 and stats[3] > 20
    assert seen == stats


def test_expandable_segments_are_seen_in_the_reports_alone(phantom, library):
    seen, stats = phantom.run(
        JOB, before=[library],
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True").result
    assert seen[:3] == [0, 0, 0]
    assert seen[3:] == stats[3:]
