// Checks the kernels of experts: rows of tokens, and products of runs of them.
#include <ATen/ops/argsort.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <utility>

#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

void check_permute_tokens(Checks& checks, c10::Device device) {
  constexpr std::int64_t kTokens = 301, kSlots = 4, kWidth = 136, kSent = kTokens * kSlots;
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    Inputs draw(type);
    const Tensor x = draw.normal({kTokens, kWidth}), rows = draw.normal({kSent, kWidth}),
                 addend = draw.normal({kSent, kWidth});
    const Tensor scores = draw.uniform_fp32({kTokens, kSlots});
    const Tensor order = at::randperm(kSent, at::kLong),
                 place_of = at::argsort(order).view({kTokens, kSlots});
    check(checks, device,
          {fmt::format("sum_pieces, {}: the CPU's bits", in_words(type)), "sum_pieces", type, type, 0, true,
           [=](const Place& p) { return call("sum_pieces", at_place(rows, p), kSlots, std::string("ep")); }});
    for (const bool all : {true, false}) {
      const Tensor count = all ? Tensor() : at::full({}, kSent - 77, at::kInt);
      const auto counted = [count](const Place& p) {
        return count.defined() ? std::optional<Tensor>(count.to(p.device)) : std::nullopt;
      };
      const std::string of = fmt::format("{}, {}", in_words(type), all ? "all rows" : "some rows");
      const double tolerance = 4 * rounding(type);
      check(checks, device,
            {"permute_tokens, " + of, "permute_tokens", type, at::kDouble, tolerance, true,
             [=](const Place& p) {
               return call("permute_tokens", at_place(x, p), order.to(p.device), counted(p), kSlots,
                           std::optional<Tensor>(wide_at_place(scores, p)), std::optional<Tensor>());
             }});
      check(checks, device,
            {"permute_tokens of a sum, " + of, "permute_tokens", type, at::kDouble, tolerance, true,
             [=](const Place& p) {
               return call("permute_tokens", at_place(rows, p), order.to(p.device), counted(p),
                           std::int64_t{1}, std::optional<Tensor>(),
                           std::optional<Tensor>(at_place(addend, p)));
             }});
      for (const bool narrow : {false, true})
        for (const bool added : {false, true})
          check(checks, device,
                {fmt::format("unpermute_tokens{}, {}{}", added ? " of a sum" : "", of,
                             narrow ? ", narrow" : ""),
                 "unpermute_tokens", type, at::kDouble, tolerance, true, [=](const Place& p) {
                   return call("unpermute_tokens", at_place(rows, p), place_of.to(p.device), counted(p),
                               std::optional<Tensor>(wide_at_place(scores, p)), narrow,
                               added ? std::optional<Tensor>(at_place(addend, p)) : std::nullopt);
                 }});
      check(checks, device,
            {"dot_rows, " + of, "dot_rows", type, at::kDouble, 1e-5, true, [=](const Place& p) {
               return call("dot_rows", at_place(rows, p), at_place(x, p), place_of.to(p.device), counted(p));
             }});
    }
  }
}

void check_order_by_expert(Checks& checks, c10::Device device) {
  const Tensor counts = at::randint(0, 40, {8, 32}, at::kInt);
  check(checks, device,
        {"order_by_expert: the CPU's", "order_by_expert", at::kInt, at::kLong, 0, true, [=](const Place& p) {
           return call("order_by_expert", counts.to(p.device), std::int64_t{12'000}, std::string("ep"));
         }});
}

void check_sort_slots(Checks& checks, c10::Device device) {
  for (const auto& [slots, kinds] : {std::pair<std::int64_t, std::int64_t>{100'003, 64}, {5'000, 513}}) {
    const Tensor keys = at::randint(kinds, {slots}, at::kLong);
    check(checks, device,
          {fmt::format("sort_slots, {} slots of {} kinds: the CPU's", slots, kinds), "sort_slots", at::kLong,
           at::kLong, 0, true,
           [=, kinds = kinds](const Place& p) { return call("sort_slots", keys.to(p.device), kinds); }});
  }
}

void check_grouped_mm(Checks& checks, c10::Device device) {
  constexpr std::int64_t kRows = 700, kInner = 256, kColumns = 192;
  const Tensor ends = at::tensor({0, 130, 131, 131, 400, 401, 640, 683}, at::kInt);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    Inputs draw(type);
    const Tensor a = draw.normal({kRows, kInner}), b = draw.normal({ends.numel(), kInner, kColumns});
    const Tensor c = draw.normal({kRows, kColumns});
    const double tolerance = type == at::kBFloat16 ? 2 * rounding(type) : 1e-5;
    check(checks, device,
          {fmt::format("grouped_mm, rows, {}", in_words(type)), "grouped_mm", type, at::kDouble, tolerance,
           true, [=](const Place& p) {
             return call("grouped_mm", at_place(a, p), at_place(b, p), ends.to(p.device));
           }});
    check(checks, device,
          {fmt::format("grouped_mm, transposed weights, {}", in_words(type)), "grouped_mm", type, at::kDouble,
           tolerance, true, [=](const Place& p) {
             const Tensor weight = at_place(b, p).transpose(1, 2).contiguous().transpose(1, 2);
             return call("grouped_mm", at_place(a, p), weight, ends.to(p.device));
           }});
    check(checks, device,
          {fmt::format("grouped_mm, columns, {}", in_words(type)), "grouped_mm", type, at::kDouble, tolerance,
           true, [=](const Place& p) {
             return call("grouped_mm", at_place(a, p).t(), at_place(c, p), ends.to(p.device));
           }});
  }
}

void check_grouped_sum(Checks& checks, c10::Device device) {
  const Tensor ends = at::tensor({0, 130, 131, 131, 900, 901, 1640, 1683}, at::kInt);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
    for (const std::int64_t width : {720, 45}) {
      Inputs draw(type);
      const Tensor x = draw.normal({1700, width}), bias = draw.normal({ends.numel(), width});
      const std::string of = fmt::format("{} wide, {}: the CPU's bits", width, in_words(type));
      check(checks, device, {"grouped_add, " + of, "grouped_add", type, type, 0, true, [=](const Place& p) {
                               return call("grouped_add", at_place(x, p), at_place(bias, p),
                                           ends.to(p.device));
                             }});
      check(checks, device, {"grouped_sum, " + of, "grouped_sum", type, type, 0, true, [=](const Place& p) {
                               return call("grouped_sum", at_place(x, p), ends.to(p.device));
                             }});
    }
}

}  // namespace

void check_experts(Checks& checks, c10::Device device) {
  check_permute_tokens(checks, device);
  check_order_by_expert(checks, device);
  check_sort_slots(checks, device);
  check_grouped_mm(checks, device);
  check_grouped_sum(checks, device);
}

}  // namespace rondo
