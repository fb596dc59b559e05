"""Jobs that leave the loop to a library: Trainer, accelerate, Lightning, peft."""

import logging
import os
import tempfile
import warnings

import torch
from common import Tower, batch, loss_of, main, sgd, table

from models import VOCABULARY

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def language_model(cls="Llama"):
    import transformers
    transformers.logging.set_verbosity_error()
    if cls == "GPT2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_embd=64, n_layer=5, n_head=4, n_positions=96, vocab_size=VOCABULARY,
            bos_token_id=0, eos_token_id=0))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=64, intermediate_size=172, num_hidden_layers=5,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96,
        vocab_size=VOCABULARY, use_cache=False))


class Text(torch.utils.data.Dataset):
    """Rows of tokens, each its own labels."""

    def __init__(self, rows=64, length=96):
        self.rows = torch.randint(VOCABULARY, (rows, length))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return {"input_ids": self.rows[place], "labels": self.rows[place]}


def huggingface(model, record, steps, **options):
    """Train with transformers' Trainer and record every step's loss and norm."""
    from transformers import Trainer, TrainingArguments
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=4, logging_steps=1,
            report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
            learning_rate=1e-3, **options), train_dataset=Text(), eval_dataset=Text(8))
        trainer.args.logging_nan_inf_filter = False
        trainer.log = lambda logs, *_: [
            record.number(f"{trainer.state.global_step} {key}", value)
            for key, value in logs.items() if key in ("loss", "grad_norm", "eval_loss")]
        trainer.train()
    record.weights(model)


def trainer(steps, record):
    huggingface(language_model(), record, steps)


def trainer_accumulating(steps, record):
    """Two micro-batches a step, bf16, an evaluation every third step."""
    huggingface(language_model("GPT2"), record, steps, gradient_accumulation_steps=2,
                bf16=True, eval_strategy="steps", eval_steps=3)


def trainer_checkpointing(steps, record):
    """The library checkpoints by itself."""
    huggingface(language_model(), record, steps, gradient_checkpointing=True)


def lora(steps, record):
    """peft's LoRA: the base is frozen, adapters are trained, merged, switched."""
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(language_model(), LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"],
        task_type="CAUSAL_LM"))
    model.add_adapter("other", LoraConfig(
        r=2, target_modules=["up_proj"], task_type="CAUSAL_LM"))
    ids = torch.randint(VOCABULARY, (4, 96))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps + 3):
        if step in (5, 8):
            model.set_adapter("other" if step == 5 else "default")
        optimizer.zero_grad()
        value = model(input_ids=ids, labels=ids).loss
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
        if step == 4:
            with model.disable_adapter(), torch.no_grad():
                record.number("base", model(input_ids=ids, labels=ids).loss.item())
    merged = model.merge_and_unload()
    record.weights(merged)


def accelerated(steps, record):
    """accelerate: prepared model, optimizer and loader, accumulation, clipping."""
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Tower()
    data = torch.utils.data.DataLoader(torch.randn(8 * steps, 64, 64), 4)
    model, optimizer, data = accelerator.prepare(model, sgd(model), data)
    for step, x in enumerate(data):
        with accelerator.accumulate(model):
            value = loss_of(model, x)
            accelerator.backward(value)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            record.number(f"{step} loss", value.item())
            record.gradients(step, model)
            optimizer.step()
            optimizer.zero_grad()
    record.weights(accelerator.unwrap_model(model))


def lightning(steps, record):
    """Lightning's Trainer: automatic optimization, validation, clipping."""
    warnings.simplefilter("ignore")
    import lightning as L
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Job(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Tower()

        def training_step(self, rows, place):
            value = loss_of(self.net, rows)
            record.number(f"{place} loss", value.item())
            return value

        def validation_step(self, rows, place):
            record.number(f"held out {self.global_step} {place}",
                          loss_of(self.net, rows).item())

        def on_before_optimizer_step(self, optimizer):
            record.gradients(self.global_step, self.net)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    job = Job()
    rows = batch(8 * steps)
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
        num_sanity_val_steps=1, val_check_interval=3, use_distributed_sampler=False)
    trainer.fit(job, torch.utils.data.DataLoader(rows, 8),
                torch.utils.data.DataLoader(rows[:8], 4))
    record.weights(job)


JOBS = table(trainer, trainer_accumulating, trainer_checkpointing, lora, accelerated,
             lightning)

if __name__ == "__main__":
    main(JOBS, __doc__)
