#!/usr/bin/env python3
"""Train a language model of the transformers package on random tokens, on a GPU.

The weights are random too: nothing is downloaded. It is an ordinary script, for
trying what a model of this size needs:

    ckptagent rehearse --device A100-40G -- python scripts/train_lm.py --model gpt2-xl
"""

import argparse
import time

import torch
import transformers

# The sizes of the published models.
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(),
    "gpt2-medium": lambda: transformers.GPT2Config(
        n_embd=1024, n_layer=24, n_head=16),
    "gpt2-xl": lambda: transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25),
    "llama-1b": lambda: transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192,
        num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        tie_word_embeddings=True),
    "llama-8b": lambda: transformers.LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336,
        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=CONFIGS, default="gpt2")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"),
                        default="bfloat16", help="of the weights and optimizer state")
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(0)
    config = CONFIGS[options.model]()
    config.use_cache = False
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, options.dtype))
    model.train()
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=1e-4)
    count = sum(p.numel() for p in model.parameters())
    print(f"{options.model}: {count / 1e6:.0f} M parameters", flush=True)
    for step in range(options.steps):
        begin = time.perf_counter()
        tokens = torch.randint(config.vocab_size, (options.batch, options.length),
                               device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {1000 * (time.perf_counter() - begin):.0f} ms",
              flush=True)


if __name__ == "__main__":
    main()
