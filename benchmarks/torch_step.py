"""A training step in plain PyTorch, timed: what torch_llama.py and torch_deepseek.py share.

Optimizer, schedule and clip are those of the debug configurations, and text of the same kind; other random numbers.
Prints one line when the first step is done, and one JSON object at the end.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn

LEARNING_RATE, WARMUP_STEPS, DECAY_RATIO, MAX_NORM = 8e-4, 2, 0.8, 1.0


def parser(description, batch, length):
    p = argparse.ArgumentParser(description=description.splitlines()[0])
    p.add_argument("--batch", type=int, default=batch, help="sequences of a step")
    p.add_argument("--length", type=int, default=length, help="tokens of a sequence")
    p.add_argument("--steps", type=int, default=25)
    p.add_argument("--warmup", type=int, default=3, help="steps that are run first and not measured")
    p.add_argument("--text", required=True, help="a file; its bytes are the token ids")
    p.add_argument("--profile", action="store_true", help="also print where the steps' time goes, by op")
    return p


def batches(path, batch, length):
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read(1 << 24)), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    while True:
        begin = torch.randint(0, len(text) - length - 1, (batch,), generator=generator)
        rows = torch.stack([text[b:b + length + 1] for b in begin.tolist()]).long()
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def learning_rate(step, steps):
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / (WARMUP_STEPS + 1)
    decay_steps = round(steps * DECAY_RATIO)
    return LEARNING_RATE * min(1.0, (steps - step) / decay_steps)


def run_steps(a, model, autocast=False):
    """Trains it, model(tokens, labels) being the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    data, total = batches(a.text, a.batch, a.length), a.warmup + a.steps

    def train_step(step):
        optimizer.param_groups[0]["lr"] = learning_rate(step, total)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(*next(data))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), norm.item()

    step_s, losses = [], []
    for step in range(total):
        started = time.perf_counter()
        loss, _ = train_step(step)
        step_s.append(time.perf_counter() - started)
        losses.append(loss)
        if step == 0:
            print(f"step: 1  loss: {loss:.5f}", flush=True)
    print(json.dumps({"step_s": step_s, "losses": losses, "threads": torch.get_num_threads(),
                      "parameters": sum(w.numel() for w in model.parameters()),
                      "median_s": statistics.median(step_s[a.warmup:])}))
    if a.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(10):
                train_step(total)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=60))
