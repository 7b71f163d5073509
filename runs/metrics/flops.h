// Model FLOPs utilisation: tokens per second times FLOPs per token over what the device can do.
#pragma once

#include <optional>
#include <string_view>

namespace rondo {

// Dense bf16 peak in FLOP/s of an accelerator, by the name that its driver gives ("NVIDIA H100 80GB HBM3").
// Empty for what the table does not know, every CPU among them: a made-up peak would be a made-up MFU.
std::optional<double> peak_flops(std::string_view device_name);

// In TFLOP/s of one device. `flops_per_token` counts forward and backward (6N + attention).
double tflops(double tokens_per_s, double flops_per_token);

// In percent; empty where the peak is unknown.
std::optional<double> mfu_percent(double tokens_per_s, double flops_per_token,
                                  std::optional<double> peak_flops_per_s);

}  // namespace rondo
