#!/usr/bin/env python3
"""Prints the numbers and exponents that float8_test.cpp expects of MXFP8.

By the conversion of the OCP Microscaling Formats (MX) Specification (v1.0, 2023, section 6.3), with
torch's float8_e4m3fn and float8_e8m0fnu.
"""
import torch

i = torch.arange(4 * 32, dtype=torch.float32)
x = ((i * 37) % 101 - 50).view(4, 32) * torch.exp2((i * 5) % 23 - 11).view(4, 32)
x *= torch.tensor([1.0, 2.0**-60, 2.0**90, 3.0]).view(4, 1)
x[3, 5] = 500 * 2.0**10  # saturates

largest = x.abs().amax(1, keepdim=True)
exponent = torch.frexp(largest).exponent - 1 - 8
scale = torch.exp2(exponent.float())
assert torch.equal(scale.to(torch.float8_e8m0fnu).float(), scale)
values = (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
print("exponents:", exponent.flatten().tolist())
for row in values.tolist():
    print('"' + "".join(f"{value:02x}" for value in row) + '"')
