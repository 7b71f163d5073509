"""The training step of configs/llama3_debug.toml in plain PyTorch: what scripts/bench_cpu.sh compares Rondo with.
With --mode products, the step's matrix products alone: the floor of any program that calls the same libraries.

Same sizes, initial distributions and arithmetic; the rest is torch_step.py's.
"""
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch_step import parser, run_steps

DIM, LAYERS, HEADS, FFN, VOCABULARY, EPS = 256, 6, 16, 768, 2048, 1e-5


def arguments():
    p = parser(__doc__, batch=4, length=256)
    p.add_argument("--mode", choices=["eager", "compile", "products"], default="eager")
    p.add_argument("--precision", choices=["fp32", "bf16-cast", "bf16-autocast"], default="fp32",
                   help="bf16-cast: fp32 weights are cast where they are used, as Rondo does; bf16-autocast: "
                        "torch.autocast chooses the dtype of every op")
    p.add_argument("--compile-mode", default="default", help="torch.compile's mode")
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
    model = Llama(torch.bfloat16 if a.precision == "bf16-cast" else torch.float32, a.length)
    if a.mode == "compile":
        model.compile(mode=a.compile_mode, fullgraph=True, dynamic=False)
    run_steps(a, model, autocast=a.precision == "bf16-autocast")


if __name__ == "__main__":
    main()
