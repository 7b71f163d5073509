// Products of bf16 on x86-64 processors without AVX-512, where LibTorch 2.11 has no fast ones.
//
// On these, the kernels here replace LibTorch's CPU kernels of aten::mm, addmm, bmm and baddbmm
// while the program is loaded, for bf16 only. So eager, interpreted and replayed steps take the
// same kernels, and so do kernels that call these ops. An element is a sum over K in f32 by
// LibTorch's sgemm, with `alpha` and `beta` applied in f32, rounded once. Operands may have any
// strides.
//
// Operands are widened in tiles, in memory that each thread allocates once: at most 2.5 MiB. Tiles
// depend only on sizes, and one thread computes a tile, so bits do not depend on the number of
// threads. They differ from the bits with AVX-512, where LibTorch calls oneDNN.
//
// ATEN_CPU_CAPABILITY=avx2, a variable of LibTorch, selects these kernels on any x86-64 processor.
#pragma once

#include <cstdint>

namespace rondo {

// Returns whether the kernels are installed in this process.
bool widens_bf16_products();

// Returns the number of calls that these kernels have computed, a batch counted once.
std::int64_t widened_products();

}  // namespace rondo
