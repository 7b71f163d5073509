// Checks every op of Rondo on a device against its kernel on the CPU: kernel_check --device=cuda.
// With --device=cpu it tests itself: the CPU's kernels against the same references. Collectives and
// all_to_all_tokens are not checked, because they need several ranks.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

// --- weights, transfers and norms: every bit ---

void check_bits(Checks& checks, c10::Device device) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    check(checks, device,
          {fmt::format("draw_, {}: the CPU's bits", in_words(type)), "draw_", type, type, 0, true,
           [type](const Place& p) {
             const Tensor x = at::empty({100'003}, at::TensorOptions().dtype(type).device(p.device));
             call("draw_", x, 0.02, 0.00135, 0.9973, std::int64_t{42}, std::int64_t{7},
                  std::int64_t{1} << 33);
             return Tensors{x};
           }});
    Inputs draw(type);
    const Tensor gradient = draw.normal({100'003});
    check(
        checks, device,
        {fmt::format("sums_of_squares, {}: the CPU's bits", in_words(type)), "sums_of_squares", type, type, 0,
         true, [=](const Place& p) { return call("sums_of_squares", Tensors(100, at_place(gradient, p))); }});
    const Tensor narrow = gradient.to(at::kBFloat16);
    check(checks, device,
          {fmt::format("add_widened, bf16 to a sum of {}: the CPU's bits", in_words(type)), "add_widened",
           type, type, 0, true,
           [=](const Place& p) { return call("add_widened", at_place(gradient, p), narrow.to(p.device)); }});
    const Tensor kv = draw.normal({2, 129, 17, 256}), rotated = draw.normal({2, 129, 1, 64}),
                 grad_k = draw.normal({2, 129, 17, 192}), grad_v = draw.normal({2, 129, 17, 128});
    constexpr std::int64_t kPlain = 128;
    check(
        checks, device,
        {fmt::format("latent_keys, {}: the CPU's bits", in_words(type)), "latent_keys", type, type, 0, true,
         [=](const Place& p) { return call("latent_keys", at_place(kv, p), at_place(rotated, p), kPlain); }});
    check(checks, device,
          {fmt::format("latent_keys_backward, {}: the CPU's bits", in_words(type)), "latent_keys_backward",
           type, type, 0, true, [=](const Place& p) {
             return call("latent_keys_backward", at_place(grad_k, p), at_place(grad_v, p), kPlain);
           }});
    const Tensor x = draw.normal({257, 129});
    check(checks, device,
          {fmt::format("a transfer to the host's pinned memory and back, {}: the same bits", in_words(type)),
           "start_transfer", type, type, 0, true, [x](const Place& p) {
             const Tensor there = at_place(x, p), back = at::empty_like(there);
             const Tensor away = at::empty_like(
                 there, at::TensorOptions().device(at::kCPU).pinned_memory(p.device.is_cuda()));
             for (const auto& [to, from] : {std::pair(away, there), std::pair(back, away)}) {
               call("start_transfer", to, from);
               call("end_transfer", to, from);
             }
             return Tensors{back};
           }});
  }
  check_optimizers(checks, device);
}

// --- fused kernels ---

void check_fused(Checks& checks, c10::Device device) {
  constexpr std::int64_t kRows = 515;
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const double tolerance = type == at::kBFloat16 ? 2 * rounding(type) : 2e-6;
    for (const std::int64_t width :
         {std::int64_t{64}, std::int64_t{512}, std::int64_t{4096}, std::int64_t{7168}}) {
      Inputs draw(type);
      const Tensor x = draw.normal({kRows, width}), weight = draw.normal({width}),
                   grad = draw.normal({kRows, width});
      check(checks, device,
            {fmt::format("rms_norm, {} wide, {}", width, in_words(type)), "rms_norm", type, at::kFloat,
             tolerance, true,
             [=](const Place& p) { return call("rms_norm", at_place(x, p), at_place(weight, p), 1e-5); }});
      check(checks, device,
            {fmt::format("rms_norm_backward, {} wide, {}", width, in_words(type)), "rms_norm_backward", type,
             at::kFloat, type == at::kBFloat16 ? tolerance : 1e-5, true, [=](const Place& p) {
               const Tensor inverse = (at_place(x, p).to(at::kFloat).square().mean(-1, true) + 1e-5).rsqrt();
               return call("rms_norm_backward", at_place(grad, p), at_place(x, p), at_place(weight, p),
                           inverse);
             }});
      const Tensor residual = draw.normal({kRows, width});
      check(checks, device,
            {fmt::format("add_rms_norm, {} wide, {}", width, in_words(type)), "add_rms_norm", type,
             at::kFloat, tolerance, true, [=](const Place& p) {
               return call("add_rms_norm", at_place(x, p), at_place(residual, p), at_place(weight, p), 1e-5);
             }});
      check(
          checks, device,
          {fmt::format("add_rms_norm_backward, {} wide, {}", width, in_words(type)), "add_rms_norm_backward",
           type, at::kFloat, type == at::kBFloat16 ? tolerance : 1e-5, true, [=](const Place& p) {
             const Tensor inverse = (at_place(x, p).to(at::kFloat).square().mean(-1, true) + 1e-5).rsqrt();
             return call("add_rms_norm_backward", at_place(grad, p), at_place(x, p), at_place(weight, p),
                         inverse, at_place(residual, p));
           }});
    }
    Inputs draw(type);
    const Tensor gate = draw.normal({kRows, 384}), up = draw.normal({kRows, 384}),
                 grad = draw.normal({kRows, 384});
    check(checks, device,
          {fmt::format("swiglu, {}", in_words(type)), "swiglu", type, at::kFloat, tolerance, true,
           [=](const Place& p) { return call("swiglu", at_place(gate, p), at_place(up, p)); }});
    check(checks, device,
          {fmt::format("swiglu_backward, {}", in_words(type)), "swiglu_backward", type, at::kFloat, tolerance,
           true, [=](const Place& p) {
             return call("swiglu_backward", at_place(grad, p), at_place(gate, p), at_place(up, p));
           }});
    const auto half = [](const Place& p) { return at::full({}, kRows / 2, at::kInt).to(p.device); };
    check(checks, device,
          {fmt::format("swiglu_rows_backward, half of the rows, {}", in_words(type)), "swiglu_rows_backward",
           type, at::kFloat, tolerance, true, [=](const Place& p) {
             return call("swiglu_rows_backward", at_place(grad, p), at_place(gate, p),
                         call("swiglu_rows", at_place(gate, p), at_place(up, p), half(p))[0], half(p));
           }});
    const Tensor both = draw.normal({kRows, 2 * 384});
    check(checks, device,
          {fmt::format("swiglu_backward_joined, halves of rows, {}", in_words(type)),
           "swiglu_backward_joined", type, at::kFloat, tolerance, true, [=](const Place& p) {
             const Tensor halves = at_place(both, p);
             return call("swiglu_backward_joined", at_place(grad, p), halves.narrow(1, 0, 384),
                         halves.narrow(1, 384, 384));
           }});
    const Tensor pairs = draw.normal({kRows, 2 * 384}) * 4;
    check(checks, device,
          {fmt::format("clamped_swiglu, half of the rows, {}", in_words(type)), "clamped_swiglu", type,
           at::kFloat, tolerance, true,
           [=](const Place& p) { return call("clamped_swiglu", at_place(pairs, p), half(p), 7.0, 1.702); }});
    check(checks, device,
          {fmt::format("clamped_swiglu_backward, half of the rows, {}", in_words(type)),
           "clamped_swiglu_backward", type, at::kFloat, tolerance, true, [=](const Place& p) {
             return call("clamped_swiglu_backward", at_place(grad, p), at_place(pairs, p), half(p), 7.0,
                         1.702);
           }});
    const Tensor heads = draw.normal({2, 129, 6, 192}), angles = draw.uniform_fp32({1, 129, 1, 32}) * 6.28;
    check(checks, device,
          {fmt::format("rope of the last third of a head, {}", in_words(type)), "rope", type, at::kFloat,
           tolerance, true, [=](const Place& p) {
             const auto table = [&](const Tensor& t) { return t.to(p.device, at::kFloat); };
             return call("rope", at_place(heads, p), table(angles.cos()), table(angles.sin()), true, false);
           }});
    const Tensor x = draw.normal({2, 129, 6, 64});
    for (const bool interleaved : {false, true})
      for (const bool inverse : {false, true})
        check(checks, device,
              {fmt::format("rope, {}{}{}", in_words(type), interleaved ? ", interleaved" : "",
                           inverse ? ", inverse" : ""),
               "rope", type, at::kFloat, tolerance, true, [=](const Place& p) {
                 const auto table = [&](const Tensor& t) { return t.to(p.device, at::kFloat); };
                 return call("rope", at_place(x, p), table(angles.cos()), table(angles.sin()), interleaved,
                             inverse);
               }});
  }
}

// --- the loss, of all rows and in chunks ---

void check_loss(Checks& checks, c10::Device device) {
  constexpr std::int64_t kRows = 300, kWidth = 128, kClasses = 1003, kIgnored = -100, kChunk = 128;
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    Inputs draw(type);
    const Tensor h = draw.normal({kRows, kWidth}), weight = draw.normal({kClasses, kWidth}) / 8;
    Tensor labels = at::randint(kClasses, {kRows}, at::kLong);
    labels[3] = kIgnored;
    labels[kRows - 1] = kIgnored;
    const Tensor place_of = labels.clamp_min(0).view({-1, 1}),
                 gradient = at::full({}, 1.0 / kRows, at::kDouble);
    const Tensor ones = at::full({kRows, 1}, 1.0 / kRows, at::kDouble);
    const double tolerance = type == at::kBFloat16 ? 4 * rounding(type) : 1e-5;
    const auto without_workspace = [](Tensors results) {
      results.pop_back();
      return results;
    };
    const Tensor logits = draw.normal({kRows, kClasses});
    check(checks, device,
          {fmt::format("cross_entropy, {}", in_words(type)), "cross_entropy", type, at::kDouble, tolerance,
           true, [=](const Place& p) {
             const Tensor x = at_place(logits, p), of_rows = labels.to(p.device);
             Tensors all = call("cross_entropy", x, of_rows, kIgnored);
             all.push_back(call("cross_entropy_backward", wide_at_place(gradient, p), x, of_rows, all[1],
                                all[2], kIgnored)[0]);
             return all;
           }});
    check(
        checks, device,
        {fmt::format("linear_cross_entropy, {}", in_words(type)), "linear_cross_entropy", type, at::kDouble,
         tolerance, true, [=](const Place& p) {
           return without_workspace(call("linear_cross_entropy", at_place(h, p), at_place(weight, p),
                                         labels.to(p.device), wide_at_place(gradient, p), kIgnored, kChunk));
         }});
    check(checks, device,
          {fmt::format("linear_cross_entropy_losses, {}", in_words(type)), "linear_cross_entropy_losses",
           type, at::kDouble, tolerance, true, [=](const Place& p) {
             return without_workspace(call("linear_cross_entropy_losses", at_place(h, p), at_place(weight, p),
                                           labels.to(p.device), kIgnored, kChunk));
           }});
    check(checks, device,
          {fmt::format("linear_cross_entropy of a shard, {}", in_words(type)),
           "linear_cross_entropy_statistics", type, at::kDouble, tolerance, true, [=](const Place& p) {
             const Tensor x = at_place(h, p), w = at_place(weight, p), place = place_of.to(p.device);
             Tensors all = without_workspace(call("linear_cross_entropy_statistics", x, w, place, kChunk));
             const Tensor each = wide_at_place(ones, p);
             const auto column = [](const Tensor& t) { return t.reshape({-1, 1}).contiguous(); };
             const Tensors gradients =
                 without_workspace(call("linear_cross_entropy_gradients", x, w, place, column(all[0]),
                                        column(all[1]), each, each, kChunk));
             all.insert(all.end(), gradients.begin(), gradients.end());
             return all;
           }});
  }
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  using Group = std::pair<const char*, void (*)(rondo::Checks&, c10::Device)>;
  constexpr std::array<Group, 8> kGroups = {{{"attention", &rondo::check_attention},
                                             {"experts", &rondo::check_experts},
                                             {"bits", &rondo::check_bits},
                                             {"fused", &rondo::check_fused},
                                             {"loss", &rondo::check_loss},
                                             {"matmul", &rondo::check_matmul},
                                             {"float8", &rondo::check_float8},
                                             {"times", &rondo::time_kernels}}};
  try {
    const rondo::CheckWords words = rondo::check_words(argc, argv);
    at::globalContext().setAllowTF32CuBLAS(false);
    rondo::Checks checks;
    bool any = false;
    for (const auto& [name, check] : kGroups)
      if (words.group.empty() ? std::string_view(name) != "times" : words.group == name) {
        check(checks, words.device);
        any = true;
      }
    if (!any) throw std::runtime_error("no group is called " + words.group);
    return checks.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_check: error: %s\n", error.what());
    return 2;
  }
}
