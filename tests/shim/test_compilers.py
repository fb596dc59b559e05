"""torch.compile looks through the shim's functions."""

from __future__ import annotations

import threading
import types
from typing import Any

import torch

from ckptshim import compilers
from ckptshim.roots import Roots


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_only_the_job_s_function_is_compiled_and_once() -> None:
    compilers.hide()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.utils.clear_compilation_metrics()
    roots = types.SimpleNamespace(_local=threading.local())
    called = torch.compile(Roots._called, backend=backend)
    x = torch.ones(3)
    for calls in range(1, 4):
        roots._local.calls = calls      # state of the shim that is no guard
        assert torch.equal(called(roots, inner, x, (), {}), x.sin() + 1)
    names = [m.co_name for m in torch._dynamo.utils.get_compilation_metrics()]
    assert names == ["inner"] and len(graphs) == 1
