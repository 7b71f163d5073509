// Compares the time of attention's CPU kernel with ATen's flash attention, in pairs: one call of
// each, 31 times (5 for long ones). Prints the medians of both and the lower quartile of the
// ratios. Packed documents are compared with one ATen call per document, and with ATen's causal
// attention of whole rows, in which documents see each other. Preparation for ATen (keys for each
// head, values as wide as keys) counts as its time.
//
//   attention_times [THREADS]
//
// With one thread the time is processor time, which other programs affect less.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <vector>

#include "ops/attention/attention_cpu.h"

namespace rondo {
namespace {

using at::Tensor;
using Run = std::function<void()>;

struct Shape {
  const char* name;
  std::int64_t batch, heads, groups, tokens, width, value_width, document;
};

double now() {
  if (at::get_num_threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double seconds(const Run& run) {
  const double begin = now();
  run();
  return now() - begin;
}

void compare(const std::string& name, std::int64_t rounds, const Run& ours, const Run& other) {
  std::vector<double> our_times, other_times, ratios;
  ours(), other();
  for (std::int64_t i = 0; i < rounds; ++i) {
    our_times.push_back(seconds(ours)), other_times.push_back(seconds(other));
    ratios.push_back(other_times.back() / our_times.back());
  }
  for (auto* const x : {&our_times, &other_times, &ratios}) std::sort(x->begin(), x->end());
  const auto middle = static_cast<std::size_t>(rounds / 2), quarter = static_cast<std::size_t>(rounds / 4);
  fmt::print("{:58} {:9.3f} ms  ATen {:9.3f} ms  {:6.2f}x\n", name, our_times[middle] * 1e3,
             other_times[middle] * 1e3, ratios[quarter]);
}

struct AtenCall {
  Tensor q, k, v, grad, output, logsumexp;
};

// Returns x with the number of heads and the width of q. Also computes its gradient, summed over
// the heads of a group.
Tensor like_queries(const Tensor& x, const Tensor& q) {
  const std::int64_t of_group = q.size(1) / x.size(1), missing = q.size(3) - x.size(3);
  const Tensor repeated = of_group == 1 ? x : x.repeat_interleave(of_group, 1);
  return missing == 0 ? repeated : at::constant_pad_nd(repeated, {0, missing});
}
Tensor sum_groups(const Tensor& grad, std::int64_t groups) {
  return grad.size(1) == groups ? grad : grad.unflatten(1, {groups, -1}).sum(2);
}

void aten_forward(AtenCall& call, const AttentionOperands& in) {
  call.q = in.q, call.k = like_queries(in.k, in.q), call.v = like_queries(in.v, in.q);
  std::tie(call.output, call.logsumexp) =
      at::_scaled_dot_product_flash_attention_for_cpu(call.q, call.k, call.v, 0.0, true, {}, in.scale);
}
void aten_backward(const AtenCall& call, const AttentionOperands& in, const Tensor& grad) {
  const auto gradients = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      like_queries(grad, call.q), call.q, call.k, call.v, call.output, call.logsumexp, 0.0, true, {},
      in.scale);
  sum_groups(std::get<1>(gradients), in.k.size(1)), sum_groups(std::get<2>(gradients), in.v.size(1));
}

// Returns lengths around the mean that fill one row.
std::vector<std::int64_t> random_documents(std::int64_t tokens, std::int64_t mean) {
  std::mt19937 random(1);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = tokens; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, std::uniform_int_distribution<std::int64_t>(1, 2 * mean - 1)(random)));
  return lengths;
}

void compare_documents(const std::string& name, const AttentionOperands& in, const Tensor& grad,
                       const std::vector<std::int64_t>& lengths, const Run& forward, const Run& backward) {
  std::vector<AttentionOperands> documents;
  std::vector<Tensor> grads;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    const auto cut = [&](const Tensor& x) { return x.narrow(2, begin, length); };
    documents.push_back({.q = cut(in.q), .k = cut(in.k), .v = cut(in.v), .scale = in.scale});
    grads.push_back(cut(grad));
    begin += length;
  }
  std::vector<AtenCall> calls(lengths.size());
  compare(name + " forward, one ATen call per document", 31, forward, [&] {
    for (std::size_t i = 0; i < calls.size(); ++i) aten_forward(calls[i], documents[i]);
  });
  compare(name + " backward, one ATen call per document", 31, backward, [&] {
    for (std::size_t i = 0; i < calls.size(); ++i) aten_backward(calls[i], documents[i], grads[i]);
  });
}

void compare_shape(const Shape& s, at::ScalarType dtype) {
  const auto heads = [&](std::int64_t count, std::int64_t width) {
    return at::randn({s.batch, s.tokens, count, width}).to(dtype).transpose(1, 2);
  };
  AttentionOperands in{.q = heads(s.heads, s.width),
                       .k = heads(s.groups, s.width),
                       .v = heads(s.groups, s.value_width),
                       .scale = 1 / std::sqrt(static_cast<double>(s.width))};
  const Tensor grad = heads(s.heads, s.value_width);
  std::vector<std::int64_t> lengths;
  if (s.document > 0) {
    lengths = random_documents(s.tokens, s.document);
    std::vector<std::int64_t> borders{0};
    for (const std::int64_t length : lengths) borders.push_back(borders.back() + length);
    in.document_borders = at::tensor(borders, at::kInt);
  }
  const std::string name = fmt::format("{} {}", s.name, dtype == at::kFloat ? "f32" : "bf16");
  std::tuple<Tensor, Tensor> made;
  AtenCall call;
  const Run forward = [&] { made = attention_forward_cpu(in); },
            backward = [&] { attention_backward_cpu(in, grad, std::get<0>(made), std::get<1>(made)); };
  const std::int64_t rounds = s.tokens > 2048 ? 5 : 31;
  compare(name + " forward", rounds, forward, [&] { aten_forward(call, in); });
  compare(name + " backward", rounds, backward, [&] { aten_backward(call, in, grad); });
  if (s.document > 0) compare_documents(name, in, grad, lengths, forward, backward);
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  const c10::AutoGradMode no_gradients(false);
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  for (const rondo::Shape& shape : {rondo::Shape{"Llama debug, 4 x 256", 4, 16, 16, 256, 16, 16, 0},
                                    {"Llama debug, 1 x 64", 1, 16, 16, 64, 16, 16, 0},
                                    {"DeepSeek debug, 4 x 256", 4, 16, 16, 256, 192, 128, 0},
                                    {"documents, 1 x 2048, D 16", 1, 16, 16, 2048, 16, 16, 256},
                                    {"documents, 1 x 2048, D 64", 1, 8, 8, 2048, 64, 64, 256},
                                    {"groups of 4, 1 x 1024, D 64", 1, 32, 8, 1024, 64, 64, 0},
                                    {"8 heads, 1 x 4096, D 128", 1, 8, 8, 4096, 128, 128, 0}})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) rondo::compare_shape(shape, dtype);
}
