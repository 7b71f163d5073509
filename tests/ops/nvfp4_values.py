#!/usr/bin/env python3
"""Prints the scales and numbers that nvfp4_test.cpp expects of NVFP4.

By the recipe of "Pretraining Large Language Models with NVFP4" (2025, arXiv 2509.25149, appendices B and C), with torch's
float8_e4m3fn and its product by a Hadamard matrix. The signs of the rotation are Transformer Engine's
(transformer_engine/pytorch/tensor/nvfp4_tensor.py).
"""
import torch

SIGNS = torch.tensor([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1], dtype=torch.float32)
NUMBERS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def nearest(magnitude):
    """The index of the nearest number; of two, the even index."""
    distance = (magnitude.unsqueeze(-1) - NUMBERS).abs()
    index = torch.arange(8).expand_as(distance)
    is_nearest = distance == distance.amin(-1, keepdim=True)
    even = is_nearest & (index % 2 == 0)
    return torch.where(even.any(-1), even.float().argmax(-1), is_nearest.float().argmax(-1))


def hadamard(size):
    matrix = torch.ones(1, 1)
    while matrix.size(0) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def quantized(x, squares=False, rotate=False):
    rows, columns = x.shape
    if rotate:
        x = ((x.view(rows, -1, 16) * SIGNS) @ hadamard(16) / 4).view(rows, columns)
    encode = torch.tensor(6.0 * 448) / x.abs().max()  # a number / a tensor is rounded twice
    if squares:
        most = x.abs().view(rows // 16, 16, columns // 16, 16).amax((1, 3)).repeat_interleave(16, 0)
    else:
        most = x.abs().view(rows, -1, 16).amax(-1)
    scale = (most / 6 * encode).clamp(2.0**-6, 448).to(torch.float8_e4m3fn).float() * (1 / encode)
    scaled = (x.view(rows, -1, 16) * (1 / scale).unsqueeze(-1)).clamp(-6, 6)
    return scale, (nearest(scaled.abs()) + 8 * scaled.signbit()).view(rows, columns)


def show(name, scale, codes):
    print(name, "scales:", ", ".join(number.hex() for number in scale.flatten().tolist()))
    for row in codes.tolist():
        print('"' + "".join(f"{code:x}" for code in row) + '"')


i = torch.arange(16 * 32, dtype=torch.float32)
x = ((i * 37) % 101 - 50).view(16, 32) * torch.exp2((i * 5) % 7 - 3).view(16, 32)
x *= torch.exp2(torch.arange(16) % 5 * 4.0 - 16).view(16, 1)
show("pieces", *(part[:6] for part in quantized(x)))
show("squares", *(part[:6] for part in quantized(x, squares=True)))
show("rotated", *(part[:6] for part in quantized(x, rotate=True)))
