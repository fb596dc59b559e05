"""Helpers of the note's tests: the world as a job sees it, and a recompute."""

import random

import numpy as np
import torch

from ckptshim.note import Note


def world(module):
    """Everything that enter and leave must leave bit for bit as it was."""
    parts = []
    for inner in module.modules():
        own = inner.__dict__
        parts.append((id(own), list(own), [id(v) for v in own.values()]))
        for value in own.values():
            if isinstance(value, dict):
                parts.append((list(value), [id(v) for v in value.values()]))
            elif isinstance(value, list):
                parts.append([id(v) for v in value])
    tensors = [(t._version, t.requires_grad, t.detach().clone())
               for t in list(module.parameters()) + list(module.buffers())]
    return parts, tensors, settings(), streams()


def settings():
    return (torch.get_default_dtype(), torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(), torch.is_inference_mode_enabled(),
            torch.overrides._get_current_function_mode_stack(),
            torch.get_float32_matmul_precision(), torch.is_anomaly_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.backends.cuda.flash_sdp_enabled())


def streams():
    name, keys, *rest = np.random.get_state()
    return (torch.get_rng_state().tolist(), random.getstate(), keys.tolist(), rest)


def assert_same(a, b):
    """Two worlds agree in every bit."""
    assert a[0] == b[0] and a[2:] == b[2:]
    for (version, wanted, held), (now, gradient, holds) in zip(a[1], b[1]):
        assert version == now and wanted == gradient and torch.equal(held, holds)


def recompute(note, module):
    """What frames do in a backward."""
    before = world(module)
    present = note.enter()
    try:
        return note.call(type(module).forward, module)
    finally:
        note.leave(present)
        assert_same(before, world(module))


def forward(scope, module, *args, **kwargs):
    """A noted forward: the note and the result."""
    note = Note.take(scope, module, args, kwargs)
    return note, type(module).forward(module, *args, **kwargs)
