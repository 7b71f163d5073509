// Rotary frequencies with their scalings, and the tables of positions. The host computes both once,
// in fp64.
#include "models/attention/rotary.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/rope/rope.h"

namespace rondo {
namespace {

using at::Tensor;

std::vector<double> frequencies(const Rotary& rotary, std::monostate) {
  std::vector<double> plain;
  for (std::int64_t i = 0; i < rotary.width; i += 2)
    plain.push_back(std::pow(rotary.theta, -static_cast<double>(i) / static_cast<double>(rotary.width)));
  return plain;
}

std::vector<double> frequencies(const Rotary& rotary, const WavelengthScaling& s) {
  std::vector<double> scaled = frequencies(rotary, std::monostate());
  const double original = static_cast<double>(s.original_max_seq_len);
  for (double& frequency : scaled) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < original / s.high_freq_factor) continue;
    const bool is_long = wavelength >= original / s.low_freq_factor;
    const double smooth =
        is_long ? 0 : (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    frequency = is_long ? frequency / s.factor : (1.0 - smooth) * frequency / s.factor + smooth * frequency;
  }
  return scaled;
}

std::vector<double> frequencies(const Rotary& rotary, const YarnScaling& s) {
  const auto width = static_cast<double>(rotary.width);
  // Returns the (real-valued) pair that makes this many rotations in the original length.
  const auto pair_turning = [&](double rotations) {
    const double wavelength = static_cast<double>(s.original_max_seq_len) / rotations;
    return width * std::log(wavelength / (2.0 * std::numbers::pi)) / (2.0 * std::log(rotary.theta));
  };
  const double fast = pair_turning(s.beta_fast), slow = pair_turning(s.beta_slow);
  const double low = std::max(s.whole_pairs ? std::floor(fast) : fast, 0.0);
  double high = std::min(s.whole_pairs ? std::ceil(slow) : slow, width - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> scaled = frequencies(rotary, std::monostate());
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double share = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    scaled[i] = scaled[i] * (1.0 - share) + scaled[i] / s.factor * share;
  }
  return scaled;
}

}  // namespace

std::vector<Buffer> rotary_buffers(const Rotary& rotary, std::int64_t seq_len) {
  const std::vector<double> turns =
      std::visit([&](const auto& scaling) { return frequencies(rotary, scaling); }, rotary.scaling);
  const auto* yarn = std::get_if<YarnScaling>(&rotary.scaling);
  const double scale = yarn == nullptr ? 1.0 : yarn->scale_of_tables;
  const auto pairs = static_cast<std::int64_t>(turns.size());
  Tensor cos = at::empty({seq_len, pairs}, at::kDouble), sin = at::empty({seq_len, pairs}, at::kDouble);
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (std::int64_t t = 0; t < seq_len; ++t) {
      const double angle = static_cast<double>(t) * turns[static_cast<std::size_t>(i)];
      cos.data_ptr<double>()[t * pairs + i] = scale * std::cos(angle);
      sin.data_ptr<double>()[t * pairs + i] = scale * std::sin(angle);
    }
  }
  return {{"rope.cos", cos}, {"rope.sin", sin}};
}

Buffer query_growth_buffer(const QueryGrowth& growth, std::int64_t seq_len) {
  Tensor factors = at::empty({seq_len, 1}, at::kDouble);
  for (std::int64_t t = 0; t < seq_len; ++t)
    factors.data_ptr<double>()[t] =
        1.0 + growth.scale * std::log1p(static_cast<double>((t + 1) / growth.step));
  return {"query_growth", factors};
}

RotaryTables rotary_tables(const ForwardInputs& inputs) {
  const auto at_positions = [&](auto&& rows) -> RotaryTables {
    const Tensor cos = rows(inputs.buffers[0]);
    const Tensor sin = rows(inputs.buffers[1]);
    return {cos, sin, inputs.buffers.size() > 2 ? rows(inputs.buffers[2]) : Tensor()};
  };
  if (!inputs.positions_BT)
    return at_positions(
        [&](const Tensor& table) { return table.narrow(0, 0, inputs.length).unsqueeze(0).unsqueeze(2); });
  const Tensor& positions = *inputs.positions_BT;
  const Tensor flat = positions.reshape({-1});
  return at_positions([&](const Tensor& table) {
    return at::index_select(table, 0, flat).view({positions.size(0), positions.size(1), 1, table.size(1)});
  });
}

Tensor rotate(const Tensor& x, const RotaryTables& rope, RotatedPairs pairs) {
  if (pairs == RotatedPairs::none) return x;
  return rope_of(x, rope.cos, rope.sin, /*interleaved=*/pairs == RotatedPairs::neighbours);
}

}  // namespace rondo
