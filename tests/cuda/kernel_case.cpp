#include "tests/cuda/kernel_case.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rondo {
namespace {

double error_of(const Tensors& got, const Tensors& reference) {
  double largest = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const Tensor a = got[i].cpu().to(at::kDouble), b = reference[i].cpu().to(at::kDouble);
    require(a.sizes() == b.sizes(), fmt::format("result {} has other sizes than the CPU's", i));
    if (b.numel() == 0) continue;
    const double difference = (a - b).abs().max().item<double>(), scale = b.abs().max().item<double>();
    require(std::isfinite(difference), fmt::format("result {} has elements that are not finite", i));
    largest = std::max(largest, difference / std::max(scale, 1e-30));
  }
  return largest;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i].cpu(), b[i].cpu())) return false;
  return true;
}

}  // namespace

Inputs::Inputs(at::ScalarType rounded_to) : type_(rounded_to) { at::manual_seed(11); }
Tensor Inputs::normal(at::IntArrayRef sizes) const {
  return at::randn(sizes, at::kDouble).to(type_).to(at::kDouble);
}
Tensor Inputs::uniform_fp32(at::IntArrayRef sizes) const {
  return at::rand(sizes, at::kDouble).to(at::kFloat).to(at::kDouble);
}

void check(Checks& checks, c10::Device device, const Case& c) {
  checks.run(c.name, [&]() -> Figures {
    const auto op = c10::Dispatcher::singleton().findSchema({"rondo::" + c.op, ""});
    if (!op) throw NotTried("this build has no rondo::" + c.op);
    const c10::DispatchKey key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
    require(op->hasKernelForDispatchKey(key) ||
                op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd),
            fmt::format("rondo::{} has no kernel for {}", c.op, c10::toString(key)));
    const Tensors reference = c.run({c10::kCPU, c.reference});
    const Tensors twin = c.run({c10::kCPU, c.type});
    const Tensors got = device.is_cpu() ? twin : c.run({device, c.type}), again = c.run({device, c.type});
    const double error = error_of(got, reference);
    const bool same = same_bits(got, again);
    Figures figures = {{"error", error},
                       {"tolerance", c.tolerance},
                       {"cpu_error", error_of(twin, reference)},
                       {"same_bits", same}};
    require(error <= c.tolerance, fmt::format("the error {:.3g} is above {:.3g}", error, c.tolerance));
    require(same || !c.same_bits, "two runs differ in their bits");
    return figures;
  });
}

}  // namespace rondo
