"""One training job a model, and digests of everything that it computed.

    python models.py NAME --steps 6 --out digests.json

Each job is an ordinary script's loop on data made from a seed: forward,
backward, AdamW. Nothing in here knows of the agent. The digests say whether
two runs computed the same bits: every step's loss, gradients and buffers, the
weights after the last step and the state of the random generators.
"""

import argparse
import hashlib
import json
import random
import time

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 2000


class Block(nn.Module):
    """A transformer block whose inner width is a free choice."""

    def __init__(self, width, heads, inner, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = self.project(y.transpose(1, 2).reshape(batch, length, width))
        x = x + F.dropout(y, self.dropout, self.training)
        y = self.down(F.gelu(self.up(self.norm2(x))))
        return x + F.dropout(y, self.dropout, self.training)


class GPT(nn.Module):
    """Twelve blocks of unequal cost: the inner widths differ by eight times."""

    INNER = (4, 1, 2, 8, 4, 4, 2, 2, 6, 1, 4, 3)

    def __init__(self, width=128, heads=4, context=192):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(context, width)
        self.h = nn.ModuleList(
            Block(width, heads, inner * width) for inner in self.INNER)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Bottleneck(nn.Module):
    def __init__(self, channels, inner, stride=1):
        super().__init__()
        out = 4 * inner
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False),
            nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False),
            nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
            nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))
        self.side = nn.Identity()
        if stride != 1 or channels != out:
            self.side = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False),
                nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.body(x) + self.side(x))


class ResNet(nn.Module):
    """Bottlenecks with BatchNorm, in one row or grouped in four stages."""

    STAGES = ((16, 3, 1), (32, 4, 2), (64, 6, 2), (128, 3, 2))

    def __init__(self, staged=False, classes=100):
        super().__init__()
        channels = 16
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1))
        stages = []
        for inner, count, stride in self.STAGES:
            stage = []
            for place in range(count):
                stage.append(Bottleneck(channels, inner,
                                        1 if place else stride))
                channels = 4 * inner
            stages.append(stage)
        self.parts = nn.ModuleList(
            [nn.Sequential(*stage) for stage in stages] if staged
            else [block for stage in stages for block in stage])
        self.classify = nn.Linear(channels, classes)

    def forward(self, x, targets):
        x = self.stem(x)
        for part in self.parts:
            x = part(x)
        return F.cross_entropy(self.classify(x.mean((2, 3))), targets)


class UNet(nn.Module):
    """Skip connections: tensors that live from the way down to the way up."""

    def __init__(self, channels=16):
        super().__init__()
        c = channels
        self.first = nn.Conv2d(3, c, 3, 1, 1)
        self.down = nn.ModuleList(
            [self.pair(c, c), self.pair(c, 2 * c), self.pair(2 * c, 4 * c)])
        self.middle = self.pair(4 * c, 4 * c)
        self.up = nn.ModuleList(
            [self.pair(8 * c, 2 * c), self.pair(4 * c, c),
             self.pair(2 * c, c)])
        self.last = nn.Conv2d(c, 3, 1)

    @staticmethod
    def pair(channels, out):
        return nn.Sequential(
            nn.Conv2d(channels, out, 3, 1, 1), nn.GroupNorm(8, out),
            nn.SiLU(), nn.Conv2d(out, out, 3, 1, 1), nn.GroupNorm(8, out),
            nn.SiLU())

    def forward(self, x, targets):
        x = self.first(x)
        skips = []
        for pair in self.down:
            x = pair(x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for pair in self.up:
            x = F.interpolate(x, scale_factor=2)
            x = pair(torch.cat([x, skips.pop()], 1))
        return F.mse_loss(self.last(x), targets)


def tokens(batch, length, low=0):
    return torch.randint(low, VOCABULARY, (batch, length))


def gpt():
    ids = tokens(4, 193)
    return GPT(), (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()), {}


def wide_gpt():
    """As wide as GPT-2's smallest. Not among MODELS: a step takes seconds."""
    ids = tokens(4, 193)
    return GPT(768, 12), (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()), {}


def resnet():
    return ResNet(), (torch.randn(8, 3, 96, 96),
                      torch.randint(100, (8,))), {}


def resnet_stages():
    _, *inputs = resnet()
    return (ResNet(staged=True), *inputs)


def unet():
    x = torch.randn(4, 3, 64, 64)
    return UNet(), (x, x.roll(1, 0)), {}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(
        n_embd=128, n_layer=8, n_head=4, n_positions=192,
        vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0))
    ids = tokens(4, 192)
    return model, (), {"input_ids": ids, "labels": ids}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=128, intermediate_size=344, num_hidden_layers=8,
        num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=192, vocab_size=VOCABULARY))
    ids = tokens(4, 192)
    return model, (), {"input_ids": ids, "labels": ids, "use_cache": False}


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    model = T5ForConditionalGeneration(T5Config(
        d_model=128, d_ff=256, num_layers=4, num_decoder_layers=4,
        num_heads=4, d_kv=32, vocab_size=VOCABULARY,
        decoder_start_token_id=0))
    ids = tokens(4, 128, low=1)
    return model, (), {"input_ids": ids, "labels": ids, "use_cache": False}


def bert():
    from transformers import BertConfig, BertForMaskedLM
    model = BertForMaskedLM(BertConfig(
        hidden_size=128, num_hidden_layers=6, num_attention_heads=4,
        intermediate_size=512, max_position_embeddings=192,
        vocab_size=VOCABULARY))
    ids = tokens(4, 192, low=1)
    return model, (), {"input_ids": ids, "labels": ids}


# name -> a function that makes (model, positional inputs, keyword inputs)
MODELS = {f.__name__: f for f in (
    gpt, gpt2, llama, t5, bert, resnet, resnet_stages, unet)}
JOBS = {**MODELS, "wide_gpt": wide_gpt}


class Record:
    """Digests by name, of the bits themselves; takes no tensor memory."""

    def __init__(self):
        self.values = {}

    def tensor(self, name, value):
        if value is None:
            self.values[name] = None
            return
        value = value.detach().contiguous()
        raw = value.reshape(-1).view(torch.uint8).numpy()
        digest = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        self.values[name] = f"{value.dtype} {tuple(value.shape)} {digest}"

    def number(self, name, value):
        self.values[name] = float(value).hex()

    def gradients(self, prefix, model):
        for name, parameter in model.named_parameters():
            self.tensor(f"{prefix} gradient {name}", parameter.grad)
        for name, buffer in model.named_buffers():
            self.tensor(f"{prefix} buffer {name}", buffer)

    def weights(self, model):
        for name, parameter in model.named_parameters():
            self.tensor(f"weight {name}", parameter)

    def random_streams(self):
        def text(value):
            return hashlib.sha1(repr(value).encode(),
                                usedforsecurity=False).hexdigest()
        name, keys, *rest = numpy.random.get_state()
        self.tensor("torch stream", torch.get_rng_state())
        self.values["python stream"] = text(random.getstate())
        self.values["numpy stream"] = text((name, keys.tolist(), rest))


def loss_of(output):
    """The models of transformers hand out an object that holds the loss."""
    return output if isinstance(output, torch.Tensor) else output.loss


def seed(value=0):
    random.seed(value)
    numpy.random.seed(value)
    torch.manual_seed(value)


def train(name, steps, record):
    """Train MODELS[name]; the milliseconds of each step, digests aside."""
    model, args, kwargs = JOBS[name]()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model(*args, **kwargs))
        loss.backward()
        halfway = time.perf_counter()
        record.number(f"{step} loss", loss.item())
        record.gradients(step, model)
        resumed = time.perf_counter()
        optimizer.step()
        del loss
        times.append(1000 * (time.perf_counter() - resumed
                             + halfway - begin))
    record.weights(model)
    record.random_streams()
    return times


def write(path, record, times):
    with open(path, "w") as out:
        json.dump({"digests": record.values, "step_ms": times}, out, indent=1)


def command(jobs, text):
    """The command line of a script of jobs, by name: functions of the number of
    steps and the record.
    """
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("name", choices=sorted(jobs))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    seed()
    record = Record()
    jobs[options.name](options.steps, record)
    record.random_streams()
    print(f"{options.name}: {options.steps} steps, {len(record.values)} values")
    if options.out:
        write(options.out, record, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(JOBS))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    seed()
    record = Record()
    times = train(options.name, options.steps, record)
    print(f"{options.name}: {options.steps} steps, "
          f"last loss {record.values[f'{options.steps - 1} loss']}")
    if options.out:
        write(options.out, record, times)


if __name__ == "__main__":
    main()
