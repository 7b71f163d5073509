// Model FLOPs utilisation: tokens per second times FLOPs per token over what the device can do.
#pragma once

#include <optional>

namespace rondo {

// In TFLOP/s of one device. `flops_per_token` counts forward and backward (6N + attention).
inline double tflops(double tokens_per_s, double flops_per_token) {
  return tokens_per_s * flops_per_token / 1e12;
}

// In percent; empty where the peak is unknown.
inline std::optional<double> mfu_percent(double tokens_per_s, double flops_per_token,
                                         std::optional<double> peak_flops_per_s) {
  if (!peak_flops_per_s) return std::nullopt;
  return 100 * tokens_per_s * flops_per_token / *peak_flops_per_s;
}

}  // namespace rondo
