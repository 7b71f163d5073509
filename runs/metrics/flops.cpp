#include "runs/metrics/flops.h"

#include <array>

namespace rondo {
namespace {

struct Peak {
  std::string_view name_part;
  double tflops;
};

// Dense bf16 tensor throughput from the vendors' data sheets. The first part that a name holds wins, so the
// longer of two names that begin alike stands first.
constexpr std::array kPeaks = {
    Peak{"A100", 312},    Peak{"A6000", 154.85}, Peak{"H100 NVL", 835}, Peak{"H100 PCIe", 756},
    Peak{"H100", 989},    Peak{"GH200", 989},    Peak{"H200", 989},     Peak{"H20", 148},
    Peak{"GB200", 2500},  Peak{"GB300", 2500},   Peak{"B200", 2250},    Peak{"B300", 2250},
    Peak{"L40S", 362},    Peak{"MI250X", 191.5}, Peak{"MI300X", 1300},  Peak{"MI325X", 1300},
    Peak{"MI355X", 2500},
};
constexpr double kTera = 1e12;

}  // namespace

std::optional<double> peak_flops(std::string_view device_name) {
  for (const Peak& peak : kPeaks)
    if (device_name.find(peak.name_part) != std::string_view::npos) return peak.tflops * kTera;
  return std::nullopt;
}

double tflops(double tokens_per_s, double flops_per_token) { return tokens_per_s * flops_per_token / kTera; }

std::optional<double> mfu_percent(double tokens_per_s, double flops_per_token,
                                  std::optional<double> peak_flops_per_s) {
  if (!peak_flops_per_s) return std::nullopt;
  return 100 * tokens_per_s * flops_per_token / *peak_flops_per_s;
}

}  // namespace rondo
