// Updates of parameters: every bit, for more tensors than a launch takes.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "tests/cuda/kernel_case.h"
#include "tests/ops/append_draws.h"

namespace rondo {
namespace {

constexpr std::int64_t kTensors = 120;

// Returns draws of all tensors: whole groups of draws, rows of them, and a border in one.
std::vector<std::int64_t> draws_of_all() {
  std::vector<std::int64_t> rounding;
  for (std::int64_t k = 0; k < kTensors; ++k) {
    const RoundingDraws draws =
        k % 3 == 0   ? RoundingDraws{.stream = k, .first = std::int64_t{1} << 40, .begin = 40}
        : k % 3 == 1 ? RoundingDraws{.stream = -k, .first = 8 * k, .row = 48, .pitch = 192, .begin = 16}
                     : RoundingDraws{.stream = k << 40, .first = k, .begin = k};
    append_draws(rounding, draws);
  }
  return rounding;
}

void check_adamw(Checks& checks, c10::Device device, at::ScalarType type) {
  Inputs draw(type);
  const Tensor gradient = draw.normal({100'003}), narrow = gradient.to(at::kBFloat16);
  const Tensor number = at::full({}, 2.0, at::kFloat), none = at::zeros({}, at::kFloat);
  check(checks, device,
        {fmt::format("adamw, {}: the CPU's bits", in_words(type)), "adamw", type, type, 0, true,
         [=](const Place& p) {
           const Tensors same(kTensors, at_place(gradient, p)),
               squares(kTensors, at_place(gradient.square(), p));
           const Tensor two = number.to(p.device);
           return call("adamw", same, same, squares, same, two, two, two, none.to(p.device), 0.9, 0.95, 1e-8,
                       0.1, true);
         }});
  check(checks, device,
        {fmt::format("adamw, moments in bf16 beside {}: the CPU's bits", in_words(type)), "adamw", type, type,
         0, true, [=](const Place& p) {
           const Tensors same(kTensors, at_place(gradient, p)), moments(kTensors, narrow.to(p.device)),
               squares(kTensors, narrow.square().to(p.device));
           const Tensor two = number.to(p.device);
           return call("adamw", same, moments, squares, same, two, two, two, none.to(p.device), 0.9, 0.95,
                       1e-8, 0.1, true);
         }});
  const std::vector<std::int64_t> rounding = draws_of_all();
  check(checks, device,
        {fmt::format("adamw, bf16 beside {}, rounded stochastically: the CPU's bits", in_words(type)),
         "adamw", type, type, 0, true, [=](const Place& p) {
           const Tensors same(kTensors, at_place(gradient, p)), moments(kTensors, narrow.to(p.device)),
               squares(kTensors, narrow.square().to(p.device));
           const Tensor two = number.to(p.device);
           return call("adamw", same, moments, squares, same, two, two, two, none.to(p.device), 0.9, 0.999,
                       1e-8, 0.1, true, rounding);
         }});
}

// Checks Muon with its state in this type beside gradients and updates in another.
void check_muon(Checks& checks, c10::Device device, at::ScalarType type, at::ScalarType other,
                const std::vector<std::int64_t>& rounding) {
  Inputs draw(type);
  const Tensor x = draw.normal({20'011}), read = x.to(other);
  const Tensor number = at::full({}, 2.0, at::kFloat), none = at::zeros({}, at::kFloat);
  const std::vector<double> scales(kTensors, 0.7);
  const std::string of = fmt::format("{} beside {}{}: the CPU's bits", in_words(type), in_words(other),
                                     rounding.empty() ? "" : ", rounded stochastically");
  check(checks, device, {"muon_momentum, " + of, "muon_momentum", type, type, 0, true, [=](const Place& p) {
                           const Tensors state(kTensors, at_place(x, p)),
                               gradients(kTensors, read.to(p.device));
                           const Tensor two = number.to(p.device);
                           return call("muon_momentum", state, gradients, two, none.to(p.device), two,
                                       rounding, 0.95, true, static_cast<std::int64_t>(other));
                         }});
  check(checks, device,
        {"muon_apply, " + of, "muon_apply", type, type, 0, true, [=](const Place& p) {
           const Tensors state(kTensors, at_place(x, p)), updates(kTensors, read.to(p.device));
           const Tensor two = number.to(p.device);
           return call("muon_apply", state, updates, two, none.to(p.device), two, rounding, 0.1, scales);
         }});
}

}  // namespace

void check_optimizers(Checks& checks, c10::Device device) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    check_adamw(checks, device, type);
    for (const at::ScalarType other : {at::kFloat, at::kBFloat16})
      check_muon(checks, device, type, other, {});
  }
  check_muon(checks, device, at::kBFloat16, at::kFloat, draws_of_all());
}

}  // namespace rondo
