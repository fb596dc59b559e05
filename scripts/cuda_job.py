#!/usr/bin/env python3
"""One training job on a CUDA device, and what it took from it.

    python cuda_job.py MODEL --dtype bf16 --steps 10 --out FILE

An ordinary script: it knows nothing of the agent, save that it compares the totals
of one that is loaded with torch's own. It runs on a GPU and on the phantom device.
"""

import argparse
import ctypes
import fcntl
import hashlib
import json
import os
import random
import time

import numpy
import torch
import transformers
from torch.utils.checkpoint import checkpoint

from train_lm import CONFIGS

VOCABULARY = 32128


def language_model(name, length=1024):
    def build(batch):
        config = CONFIGS[name]()
        config.use_cache = False
        model = transformers.AutoModelForCausalLM.from_config(config)
        tokens = torch.randint(config.vocab_size, (batch, length))
        return model, {"input_ids": tokens, "labels": tokens}
    return build


def t5(batch):
    """The size of t5-base."""
    config = transformers.T5Config(
        d_model=768, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12,
        vocab_size=VOCABULARY, decoder_start_token_id=0, use_cache=False)
    tokens = torch.randint(1, VOCABULARY, (batch, 512))
    return (transformers.T5ForConditionalGeneration(config),
            {"input_ids": tokens, "labels": tokens, "use_cache": False})


def bert(batch):
    """The size of bert-base."""
    config = transformers.BertConfig()
    tokens = torch.randint(1, config.vocab_size, (batch, 512))
    return (transformers.BertForMaskedLM(config),
            {"input_ids": tokens, "labels": tokens})


# name -> (builder of a model and its inputs, batch)
MODELS = {
    "gpt2": (language_model("gpt2"), 8),
    "gpt2-medium": (language_model("gpt2-medium"), 8),
    "llama-1b": (language_model("llama-1b"), 4),
    "t5": (t5, 16),
    "bert": (bert, 16),
}


def repeated(model):
    """The blocks that a user would checkpoint: the items of lists of many."""
    return [block for part in model.modules()
            if isinstance(part, torch.nn.ModuleList) and len(part) > 3
            for block in part]


def checkpoint_all(model):
    """torch.utils.checkpoint around every block, as its manual shows it."""
    for block in repeated(model):
        def forward(*args, _forward=block.forward, **kwargs):
            return checkpoint(_forward, *args, use_reentrant=False, **kwargs)
        block.forward = forward


class Books:
    """The totals of a loaded agent, beside torch's own."""

    def __init__(self):
        self.agent = ctypes.CDLL(None)
        self.there = hasattr(self.agent, "ckptagent_live")
        self.differ = 0             # bytes, the most of all looks
        if self.there:
            for name in ("ckptagent_live", "ckptagent_cached", "ckptagent_outside"):
                getattr(self.agent, name).restype = ctypes.c_uint64

    def outside(self):
        """What others than torch's allocator have of the device."""
        return self.agent.ckptagent_outside(0) if self.there else 0

    def look(self):
        if not self.there:
            return
        stats = torch.cuda.memory_stats()
        for ours, theirs in (
                (self.agent.ckptagent_live(1), stats["allocated_bytes.all.current"]),
                (self.agent.ckptagent_cached(0), stats["reserved_bytes.all.current"])):
            self.differ = max(self.differ, abs(ours - theirs))


class Digester:
    """Digests of tensors' bits, made on the device: 64-bit sums of their words, each
    times an odd number of its own. A few MiB of device memory, from the start on.
    """

    WORDS = 1 << 20         # read at once

    def __init__(self):
        odd = torch.arange(self.WORDS, dtype=torch.int64, device="cuda")
        self._weights = odd * 0x5851F42D4C957F2D | 1

    @torch.no_grad()
    def __call__(self, tensors):
        sums = []
        for tensor in tensors:
            words = tensor.detach().reshape(-1)
            words = words.view({2: torch.int16, 4: torch.int32}.get(
                words.element_size(), torch.uint8))
            sums += [(part * self._weights[:part.numel()]).sum()
                     for part in words.split(self.WORDS)]
        return torch.stack(sums).tolist()


def short(values):
    """The same in one word."""
    return hashlib.sha1(repr(values).encode(), usedforsecurity=False).hexdigest()


def train(options):
    build, batch = MODELS[options.model]
    with torch.device("cuda"):
        model, inputs = build(options.batch or batch)
    model.train()
    if options.checkpoint:
        checkpoint_all(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    books, steps, digests = Books(), [], []
    digest = Digester() if options.digests else None
    for _ in range(options.steps):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        books.look()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = model(**inputs).loss
        loss.backward()
        torch.cuda.synchronize()
        if digest:
            half = time.perf_counter()
            digests.append(short(digest([loss, *(p.grad for p in model.parameters()
                                                 if p.grad is not None)])))
            begin += time.perf_counter() - half
        optimizer.step()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        steps.append({"ms": 1e3 * (time.perf_counter() - begin),
                      "allocated": stats["allocated_bytes.all.peak"],
                      "reserved": stats["reserved_bytes.all.peak"],
                      "outside": books.outside()})
        books.look()
        del loss
        optimizer.zero_grad()
    return {"steps": steps, "digests": digests, "differ": books.differ,
            "books": books.there, "device": torch.cuda.get_device_name(),
            "random": short([torch.get_rng_state().tolist(),
                             torch.cuda.get_rng_state().tolist()])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpoint", action="store_true",
                        help="torch.utils.checkpoint on all blocks")
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--lock", metavar="FILE",
                        help="wait for it before the device is touched")
    parser.add_argument("--out", metavar="FILE", required=True)
    options = parser.parse_args()
    if options.lock:            # the system takes it back when this process is gone
        fcntl.flock(os.open(options.lock, os.O_RDONLY | os.O_CREAT, 0o600),
                    fcntl.LOCK_EX)
    if options.digests:
        torch.use_deterministic_algorithms(True, warn_only=True)
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    result = train(options)
    with open(options.out, "w") as out:
        json.dump(result, out)


if __name__ == "__main__":
    main()
