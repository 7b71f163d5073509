"""The training step of configs/llama3_debug.toml in plain PyTorch: what scripts/bench_cpu.sh compares Rondo with.
With --mode products, the step's matrix products alone: the floor of any program that calls the same libraries.

Same sizes, initial distributions, arithmetic, optimizer and schedule, and text of the same kind; other random numbers.
Prints one line when the first step is done, and one JSON object at the end.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

DIM, LAYERS, HEADS, FFN, VOCABULARY, EPS = 256, 6, 16, 768, 2048, 1e-5
LEARNING_RATE, WARMUP_STEPS, DECAY_RATIO, MAX_NORM = 8e-4, 2, 0.8, 1.0


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--mode", choices=["eager", "compile", "products"], default="eager")
    p.add_argument("--batch", type=int, default=4, help="sequences of a step")
    p.add_argument("--length", type=int, default=256, help="tokens of a sequence")
    p.add_argument("--precision", choices=["fp32", "bf16-cast", "bf16-autocast"], default="fp32",
                   help="bf16-cast: fp32 weights are cast where they are used, as Rondo does; bf16-autocast: "
                        "torch.autocast chooses the dtype of every op")
    p.add_argument("--compile-mode", default="default", help="torch.compile's mode")
    p.add_argument("--steps", type=int, default=25)
    p.add_argument("--warmup", type=int, default=3, help="steps that are run first and not measured")
    p.add_argument("--text", required=True, help="a file; its bytes are the token ids")
    p.add_argument("--profile", action="store_true", help="also print where the steps' time goes, by op")
    return p.parse_args()


class Linear(nn.Module):
    def __init__(self, inputs, outputs, std, cut=2.0):
        super().__init__()
        self.weight = nn.Parameter(nn.init.trunc_normal_(torch.empty(outputs, inputs), std=std, a=-cut, b=cut))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return F.rms_norm(x.float(), (DIM,), eps=EPS).to(x.dtype) * self.weight.to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, layer):
        super().__init__()
        deep = 0.02 / (2 * (layer + 1)) ** 0.5
        self.attention_norm, self.ffn_norm = RmsNorm(), RmsNorm()
        self.wq, self.wk, self.wv = (Linear(DIM, DIM, 0.02) for _ in range(3))
        self.wo = Linear(DIM, DIM, deep)
        self.w1, self.w3, self.w2 = Linear(DIM, FFN, 0.02), Linear(DIM, FFN, deep), Linear(FFN, DIM, deep)

    def forward(self, h, cos, sin):
        heads = (*h.shape[:2], HEADS, DIM // HEADS)
        x = self.attention_norm(h)
        q = rotate(self.wq(x).view(heads), cos, sin).transpose(1, 2)
        k = rotate(self.wk(x).view(heads), cos, sin).transpose(1, 2)
        v = self.wv(x).view(heads).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.wo(attended.transpose(1, 2).reshape(h.shape))
        x = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(x)) * self.w3(x))


class Llama(nn.Module):
    def __init__(self, dtype, length):
        super().__init__()
        self.dtype = dtype
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, DIM))
        self.blocks = nn.ModuleList(Block(layer) for layer in range(LAYERS))
        self.norm = RmsNorm()
        self.output = Linear(DIM, VOCABULARY, DIM**-0.5, 3 * DIM**-0.5)
        half = DIM // HEADS // 2
        angles = torch.outer(torch.arange(length), 500000.0 ** (-torch.arange(half) / half)).unsqueeze(1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, labels):
        h = F.embedding(tokens, self.embedding.to(self.dtype))
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        logits = self.output(self.norm(h)).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / labels.numel()


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


def status_mib(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(key))


def products(a):
    """The products of the linear layers, forward and for both gradients, each of tensors of its own."""
    dtype = torch.float32 if a.precision == "fp32" else torch.bfloat16
    sizes = LAYERS * (4 * [(DIM, DIM)] + 2 * [(FFN, DIM)] + [(DIM, FFN)]) + [(VOCABULARY, DIM)]
    layers = [[torch.randn(shape, dtype=dtype) for shape in ((a.batch * a.length, i), (o, i), (a.batch * a.length, o))]
              for o, i in sizes]

    def step():
        for x, weight, _ in layers:
            torch.mm(x, weight.t())
        for x, weight, gradient in reversed(layers):
            torch.mm(gradient.t(), x)
            torch.mm(gradient, weight)

    step_s = []
    for number in range(a.warmup + a.steps):
        started = time.perf_counter()
        step()
        step_s.append(time.perf_counter() - started)
        if number == 0:
            print("step: 1", flush=True)
    print(json.dumps({"step_s": step_s, "losses": [], "threads": torch.get_num_threads()}))


def main():
    a = arguments()
    torch.manual_seed(0)
    if a.mode == "products":
        return products(a)
    imported_mib = status_mib("VmRSS")
    model = Llama(torch.bfloat16 if a.precision == "bf16-cast" else torch.float32, a.length)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    if a.mode == "compile":
        model.compile(mode=a.compile_mode, fullgraph=True, dynamic=False)
    data, total = batches(a.text, a.batch, a.length), a.warmup + a.steps

    def train_step(step):
        optimizer.param_groups[0]["lr"] = learning_rate(step, total)
        with torch.autocast("cpu", torch.bfloat16, enabled=a.precision == "bf16-autocast"):
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
                      "rss_growth_mib": status_mib("VmHWM") - imported_mib,
                      "median_s": statistics.median(step_s[a.warmup:])}))
    if a.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(10):
                train_step(total)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=60))


if __name__ == "__main__":
    main()
