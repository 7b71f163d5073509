// The arithmetic of ops/float8/nvfp4.h, shared by CPU and CUDA. No LibTorch.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/float8/float8_math.h"
#include "ops/kernel/device.h"
#include "ops/random/stochastic_rounding.h"

namespace rondo::nvfp4 {

constexpr std::int64_t kPiece = 16;  // numbers of a row that share a scale
constexpr float kLargest = 6, kLargestScale = 448, kLeastScale = 0.015625F, kLargestFloat = 3.40282347e38F;

// Rounds a magnitude of at most 6 to a number of E2M1, whose spacing is 0.5 below 2, 1 below 4 and
// 2 above: to nearest, ties to even, or with a draw below 2^16.
RONDO_DEVICE inline float spacing(float magnitude) {
  return magnitude < 2 ? 0.5F : magnitude < 4 ? 1.0F : 2.0F;
}
RONDO_DEVICE inline float whole(float steps) {  // to nearest
  constexpr float kMagic = 8388608;             // floats from here on are whole numbers
  return steps + kMagic - kMagic;
}
RONDO_DEVICE inline float nearest(float magnitude) {
  const float step = spacing(magnitude);
  return whole(magnitude / step) * step;
}
RONDO_DEVICE inline float stochastic(float magnitude, std::uint32_t draw) {
  const float step = spacing(magnitude), steps = magnitude / step, near = whole(steps);
  const float below = near > steps ? near - 1 : near;
  return (static_cast<float>(static_cast<std::int32_t>(draw)) < (steps - below) * 65536 ? below + 1 : below) *
         step;
}

// Rounds a normal number of E4M3's range to its nearest number, ties to even.
RONDO_DEVICE inline float rounded_scale(float x) {
  const std::uint32_t bits = float8::bits_of(x);
  return float8::float_of((bits + 0x7ffff + ((bits >> 20) & 1)) & 0xfff00000);
}

struct Job {
  const float* x;  // [rows, columns]
  std::int64_t rows, columns;
  bool squares;
  const float* largest;
  const std::int64_t* bits;  // nullptr: rounds to nearest
  std::int64_t stream;
  std::uint8_t* values;
  float* scales;

  RONDO_DEVICE std::int64_t pieces() const { return rows * (columns / kPiece); }
};

// Quantizes piece i of the matrix, counted row by row.
RONDO_DEVICE inline void quantize_piece(const Job& job, std::int64_t i) {
  const std::int64_t of_row = job.columns / kPiece, row = i / of_row, column = i % of_row * kPiece;
  const std::int64_t first = row * job.columns + column;
  const std::int64_t begin = job.squares ? row / kPiece * kPiece : row,
                     end = begin + (job.squares ? kPiece : 1);
  float most = 0;
  for (std::int64_t r = begin; r < end; ++r)
    for (std::int64_t k = 0; k < kPiece; ++k) {
      const float magnitude = std::fabs(job.x[r * job.columns + column + k]);
      most = magnitude > most ? magnitude : most;
    }
  const float largest = *job.largest;
  if (!(largest <= kLargestFloat)) {
    job.scales[i] = float8::float_of(0x7fc00000);
    for (std::int64_t k = 0; k < kPiece; ++k) job.values[first + k] = 0;
    return;
  }
  // 1 / the scale of the matrix. Of a matrix of zeros it is 1, and of tiny numbers it is finite.
  const float encode = largest == 0 ? 1 : std::fmin(kLargestScale * kLargest / largest, kLargestFloat);
  const float wanted = std::fmin(std::fmax(most / kLargest * encode, kLeastScale), kLargestScale);
  const float scale = rounded_scale(wanted) * (1 / encode);
  const float factor = std::fmin(1 / scale, kLargestFloat);
  job.scales[i] = scale;
  RoundingDraws draws;
  draws.stream = job.stream;
  const std::uint64_t bits = job.bits == nullptr ? 0 : static_cast<std::uint64_t>(*job.bits);
  for (std::int64_t group = 0; group < kPiece; group += kDrawGroup) {
    PhiloxWords words = {};
    if (job.bits != nullptr)
      words = draws.words((first + group) / kDrawGroup, static_cast<std::uint32_t>(bits),
                          static_cast<std::uint32_t>(bits >> 32));
    for (int k = 0; k < kDrawGroup; ++k) {
      const float x = job.x[first + group + k] * factor, magnitude = std::fmin(std::fabs(x), kLargest);
      const float number =
          job.bits == nullptr ? nearest(magnitude) : stochastic(magnitude, draw_of(words, k));
      const std::uint32_t sign = float8::bits_of(x) >> 24 & 0x80;
      job.values[first + group + k] =
          static_cast<std::uint8_t>(sign | float8::rounded<float8::Format::e4m3>(number));
    }
  }
}

}  // namespace rondo::nvfp4
