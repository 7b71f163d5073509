"""The training step of rondo's llama3 in PyTorch on one GPU, eager and compiled, which take turns.

As rondo on one GPU: fp32 weights that are cast to bf16 where they are used, RMSNorm, rotation and loss in fp32, clipping
by the global norm, fused AdamW, and the loss read on the host in every step. Prints a line of JSON after every turn,
{"eager": {"step_s": [...], ...}}: the last one of each way has all of its steps.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

TURNS = 2
EPS, MAX_NORM, LEARNING_RATE = 1e-5, 1.0, 3e-4


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for size in ("dim", "layers", "heads", "kv-heads", "ffn", "vocabulary", "batch", "length"):
        p.add_argument(f"--{size}", type=int, required=True)
    p.add_argument("--tied", action="store_true", help="the embedding is the output's weight too")
    p.add_argument("--warmup", type=int, default=6, help="steps of each way that are run first and not measured")
    p.add_argument("--steps", type=int, default=20, help="measured steps of each way")
    p.add_argument("--modes", default="eager,compile")
    p.add_argument("--device", default="cuda")
    p.add_argument("--text", required=True, help="a file; its bytes are the token ids")
    return p.parse_args()


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).normal_(0, 0.02))

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class RmsNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, eps=EPS).to(x.dtype) * self.weight.to(x.dtype)


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.width = a.dim // a.heads
        self.grouped = a.kv_heads != a.heads
        self.attention_norm, self.ffn_norm = RmsNorm(a.dim), RmsNorm(a.dim)
        self.wq, self.wo = Linear(a.dim, a.dim), Linear(a.dim, a.dim)
        self.wk, self.wv = (Linear(a.dim, a.kv_heads * self.width) for _ in range(2))
        self.w1, self.w3, self.w2 = Linear(a.dim, a.ffn), Linear(a.dim, a.ffn), Linear(a.ffn, a.dim)

    def forward(self, h, cos, sin):
        heads = (*h.shape[:2], -1, self.width)
        x = self.attention_norm(h)
        q = rotate(self.wq(x).view(heads), cos, sin).transpose(1, 2)
        k = rotate(self.wk(x).view(heads), cos, sin).transpose(1, 2)
        v = self.wv(x).view(heads).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        h = h + self.wo(attended.transpose(1, 2).reshape(h.shape))
        x = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(x)) * self.w3(x))


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(a.vocabulary, a.dim).normal_(0, 0.02))
        self.output = None if a.tied else nn.Parameter(torch.empty(a.vocabulary, a.dim).normal_(0, 0.02))
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = RmsNorm(a.dim)
        half = a.dim // a.heads // 2
        angles = torch.outer(torch.arange(a.length), 500000.0 ** (-torch.arange(half) / half)).unsqueeze(1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens, labels):
        h = F.embedding(tokens, self.embedding.to(torch.bfloat16))
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        weight = self.embedding if self.output is None else self.output
        logits = F.linear(self.norm(h), weight.to(h.dtype)).float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def batches(a):
    with open(a.text, "rb") as file:
        text = torch.frombuffer(bytearray(file.read(1 << 24)), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    while True:
        begin = torch.randint(0, len(text) - a.length - 1, (a.batch,), generator=generator)
        rows = torch.stack([text[b:b + a.length + 1] for b in begin.tolist()]).long()
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def main():
    a = arguments()
    torch.manual_seed(0)
    with torch.device(a.device):
        model = Llama(a)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1,
                                  fused=True)
    # The compiled way is the same model, so that both fit.
    ways = {mode: {"eager": model, "compile": torch.compile(model, dynamic=False, fullgraph=True)}[mode]
            for mode in a.modes.split(",")}
    data = batches(a)

    def train_step(way):
        tokens, labels = (x.to(a.device) for x in next(data))
        loss = way(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    found = {mode: {"step_s": [], "losses": [], "peak_gib": 0.0} for mode in ways}

    def steps(mode, count, measured):
        if a.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        for _ in range(count):
            began = time.perf_counter()
            loss = train_step(ways[mode])
            if measured:
                found[mode]["step_s"].append(time.perf_counter() - began)
                found[mode]["losses"].append(loss)
        if a.device == "cuda" and measured:
            found[mode]["peak_gib"] = max(found[mode]["peak_gib"], torch.cuda.max_memory_allocated() / 2**30)

    def turn_of(mode):
        steps(mode, a.steps // TURNS, measured=True)
        print(json.dumps({mode: found[mode]}), flush=True)

    for mode in list(ways):  # its first turn before the other one is compiled, which may take longer than there is time
        began = time.perf_counter()
        try:
            steps(mode, a.warmup, measured=False)
        except Exception as error:  # of a compiler, say: the other way still has its figures
            print(json.dumps({"failed": {mode: f"{type(error).__name__}: {error}"[:300]}}), flush=True)
            optimizer.zero_grad(set_to_none=True)
            del ways[mode]
            continue
        found[mode]["warm_up_s"] = time.perf_counter() - began
        turn_of(mode)
    for turn in range(1, TURNS):
        for mode in ways if turn % 2 == 0 else reversed(list(ways)):
            turn_of(mode)


if __name__ == "__main__":
    main()
