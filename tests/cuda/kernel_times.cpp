// Measures the kernels of a step: those of a layer and of the head of Llama 3 8B with 4,096 tokens
// in bf16, and the optimizer on one layer's parameters. On the CPU the same ops run with small
// shapes, to test the program; its results then mean nothing.
//
// A round is as many calls as take 20 ms, between two waits for the device; the result is the
// median of five rounds. TFLOP/s count a multiplication and an addition as 2; TB/s count the bytes
// that a kernel must at least read and write.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "ops/attention/attention_choice.h"
#include "ops/float8/float8.h"
#include "ops/grouped_mm/float8_grouped_mm.h"
#include "ops/grouped_mm/grouped_mm.h"
#include "ops/sort_slots/sort_slots.h"
#include "support/median.h"
#include "tests/cuda/kernel_case.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

class Times {
 public:
  Times(Checks& checks, c10::Device device)
      : checks_(checks), device_(device), flag_(at::zeros({1}, at::TensorOptions().device(device))) {}

  // `flops` and `bytes` of one call; 0: not reported.
  void time(const std::string& name, double flops, double bytes, const std::function<void()>& call) {
    checks_.run(name, [&]() -> Figures {
      call();
      const double once = seconds(call, 1);
      const int calls = device_.is_cuda() ? std::clamp(static_cast<int>(0.02 / once), 1, 200) : 1;
      std::vector<double> rounds(5);
      for (double& round : rounds) round = seconds(call, calls) / calls;
      const double usual = median(rounds);
      Figures figures = {{"us", usual * 1e6}};
      if (flops > 0) figures["tflop_per_s"] = flops / usual * 1e-12;
      if (bytes > 0) figures["tb_per_s"] = bytes / usual * 1e-12;
      return figures;
    });
  }
  Tensor normal(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) const {
    return at::randn(sizes, at::TensorOptions().device(device_).dtype(type));
  }

 private:
  double seconds(const std::function<void()>& call, int calls) {
    wait();
    const auto began = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    wait();
    return std::chrono::duration<double>(Clock::now() - began).count();
  }
  void wait() { flag_.add_(1).item<float>(); }

  Checks& checks_;
  const c10::Device device_;
  Tensor flag_;
};

struct Shape {
  std::int64_t tokens, dim, ffn, heads, kv_heads, head, vocabulary;
};

// The three products of a weight [out, in]: of the forward, and of both gradients.
void time_products(Times& times, const std::string& name, std::int64_t tokens, std::int64_t in,
                   std::int64_t out) {
  const Tensor x = times.normal({tokens, in}), weight = times.normal({out, in}),
               grad = times.normal({tokens, out});
  const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  const auto of = [&](const char* which) { return fmt::format("{} [{} x {}], {}", name, out, in, which); };
  times.time(of("forward"), flops, 0, [&] { at::mm(x, weight.t()); });
  times.time(of("gradient of the input"), flops, 0, [&] { at::mm(grad, weight); });
  times.time(of("gradient of the weight"), flops, 0, [&] { at::mm(grad.t(), x); });
}

void time_attention(Times& times, const Shape& s) {
  const Tensor q = times.normal({1, s.tokens, s.heads, s.head}).transpose(1, 2),
               k = times.normal({1, s.tokens, s.kv_heads, s.head}).transpose(1, 2),
               v = times.normal({1, s.tokens, s.kv_heads, s.head}).transpose(1, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(s.head));
  const std::optional<Tensor> documents;
  const Tensors out = call("attention", q, k, v, documents, scale);
  const Tensor grad = at::empty_like(out[0]).fill_(0.01);
  const auto pairs = static_cast<double>(s.tokens) * static_cast<double>(s.tokens) / 2;
  const double flops = 4 * pairs * static_cast<double>(s.heads * s.head);
  times.time("attention, causal", flops, 0, [&] { call("attention", q, k, v, documents, scale); });
  times.time("attention, causal, backward", 2.5 * flops, 0,
             [&] { call("attention_backward", grad, q, k, v, out[0], out[1], documents, scale); });
}

// Rows of documents, and windows, by each kernel for them.
struct Packed {
  const char* name;
  std::int64_t heads, kv_heads, width, value_width;
  std::vector<std::int64_t> documents;  // their tokens; in one row
  AttentionMask mask = {};
  bool head_and_tail = false;  // the queries are the first and the last quarter of the row
};

// The pairs of a query and a key that it sees.
double pairs_of(const Packed& packed) {
  double pairs = 0;
  if (packed.head_and_tail) {
    const auto tokens = static_cast<double>(packed.documents[0]);
    return tokens * tokens / 4;
  }
  for (const std::int64_t tokens : packed.documents) {
    const std::int64_t seen = packed.mask.left < 0 ? tokens : std::min(tokens, packed.mask.left + 1);
    pairs += static_cast<double>(seen) * (static_cast<double>(tokens) - static_cast<double>(seen) / 2);
  }
  return pairs;
}

void time_packed(Times& times, const Packed& packed) {
  std::vector<std::int32_t> borders{0};
  for (const std::int64_t tokens : packed.documents)
    borders.push_back(static_cast<std::int32_t>(borders.back() + tokens));
  const std::int64_t tokens = borders.back();
  borders.resize(static_cast<std::size_t>(tokens + 1), borders.back());  // as in training
  const std::int64_t queries = packed.head_and_tail ? tokens / 2 : tokens;
  const auto heads = [&](std::int64_t length, std::int64_t count, std::int64_t width) {
    return times.normal({1, length, count, width}).transpose(1, 2);
  };
  const Tensor q = heads(queries, packed.heads, packed.width),
               k = heads(tokens, packed.kv_heads, packed.width),
               v = heads(tokens, packed.kv_heads, packed.value_width),
               grad = heads(queries, packed.heads, packed.value_width);
  const std::optional<Tensor> none;
  std::optional<Tensor> documents, positions;
  if (packed.head_and_tail)
    positions = at::cat({at::arange(queries / 2), at::arange(tokens - queries / 2, tokens)})
                    .to(at::kInt)
                    .unsqueeze(0)
                    .to(q.device());
  const std::int64_t runs = packed.head_and_tail ? 2 : 0;
  if (packed.documents.size() > 1) documents = at::tensor(borders, at::kInt).to(q.device());
  const double scale = 1 / std::sqrt(static_cast<double>(packed.width));
  const double flops = 2 * pairs_of(packed) * static_cast<double>(packed.heads);
  const auto width = static_cast<double>(packed.width), value_width = static_cast<double>(packed.value_width);
  for (const AttentionKernel kernel : {AttentionKernel::cudnn, AttentionKernel::flash}) {
    set_attention_kernel(kernel);
    Tensors out;
    const auto forward = [&] {
      return call("attention", q, k, v, documents, scale, packed.mask.left, packed.mask.right,
                  packed.mask.chunk, none, positions, none, runs);
    };
    const std::string name = fmt::format("attention, {}, by {}", packed.name, name_of(kernel));
    times.time(name, flops * (width + value_width), 0, [&] { out = forward(); });
    times.time(name + ", backward", flops * (3 * width + 2 * value_width), 0, [&] {
      call("attention_backward", grad, q, k, v, out.at(0), out.at(1), documents, scale, packed.mask.left,
           packed.mask.right, packed.mask.chunk, positions, none, runs);
    });
  }
  set_attention_kernel(std::nullopt);
}

void time_packed_rows(Times& times, std::int64_t tokens) {
  const std::vector<std::int64_t> eight(8, tokens / 8),
      mixed{tokens * 3 / 8,
            tokens / 128,
            tokens / 8,
            tokens / 256,
            tokens / 4,
            tokens / 32,
            tokens - tokens * 3 / 8 - tokens / 128 - tokens / 8 - tokens / 256 - tokens / 4 - tokens / 32},
      many(64, tokens / 64);
  const std::int64_t window = tokens / 64;
  for (const Packed& packed :
       {Packed{"one document", 32, 8, 128, 128, {tokens}},
        Packed{"8 equal documents", 32, 8, 128, 128, eight},
        Packed{"7 documents of all lengths", 32, 8, 128, 128, mixed},
        Packed{"64 documents", 32, 8, 128, 128, many},
        Packed{"heads of 192 and 128, 8 documents", 16, 16, 192, 128, eight},
        Packed{"heads of 64, a window", 64, 8, 64, 64, {tokens}, {.left = window - 1}},
        Packed{"heads of 64, 8 documents and a window", 64, 8, 64, 64, eight, {.left = window - 1}},
        Packed{"heads of 64, 8 documents", 64, 8, 64, 64, eight},
        Packed{"heads and tails", 32, 8, 128, 128, {tokens}, {}, true}})
    time_packed(times, packed);
}

void time_fused(Times& times, const Shape& s) {
  const Tensor x = times.normal({s.tokens, s.dim}), grad = times.normal({s.tokens, s.dim}),
               weight = times.normal({s.dim});
  const Tensor inverse = (x.to(at::kFloat).square().mean(-1, true) + 1e-5).rsqrt();
  const double row_bytes = static_cast<double>(x.nbytes());
  times.time("rms_norm", 0, 2 * row_bytes, [&] { call("rms_norm", x, weight, 1e-5); });
  times.time("rms_norm_backward", 0, 3 * row_bytes,
             [&] { call("rms_norm_backward", grad, x, weight, inverse); });
  const Tensor heads = times.normal({s.tokens * s.heads, s.head}), of_head = times.normal({s.head}),
               of_rows = (heads.to(at::kFloat).square().mean(-1, true) + 1e-5).rsqrt();
  times.time("rms_norm_backward of each head", 0, 3 * static_cast<double>(heads.nbytes()),
             [&] { call("rms_norm_backward", heads, heads, of_head, of_rows); });
  const Tensor gate = times.normal({s.tokens, s.ffn}), up = times.normal({s.tokens, s.ffn}),
               grad_wide = times.normal({s.tokens, s.ffn});
  const double wide_bytes = static_cast<double>(gate.nbytes());
  times.time("swiglu", 0, 3 * wide_bytes, [&] { call("swiglu", gate, up); });
  times.time("swiglu_backward", 0, 5 * wide_bytes, [&] { call("swiglu_backward", grad_wide, gate, up); });
  const Tensor q = times.normal({1, s.tokens, s.heads, s.head}),
               angles = times.normal({1, s.tokens, 1, s.head / 2}, at::kFloat);
  const Tensor cos = angles.cos(), sin = angles.sin();
  times.time("rope of the queries", 0, 2 * static_cast<double>(q.nbytes()),
             [&] { call("rope", q, cos, sin, false, false); });

  // The widths of DeepSeek-V3: 128 plain and 64 rotated elements of a key, and 128 of a value.
  constexpr std::int64_t kPlain = 128;
  const Tensor latent_q = times.normal({1, s.tokens, s.heads, 192}),
               latent_kv = times.normal({1, s.tokens, s.heads, 256}),
               rotated = times.normal({1, s.tokens, 1, 64}),
               grad_v = times.normal({1, s.tokens, s.heads, 128});
  const Tensor of_end = times.normal({1, s.tokens, 1, 32}, at::kFloat), cos_of_end = of_end.cos(),
               sin_of_end = of_end.sin();
  const auto q_bytes = static_cast<double>(latent_q.nbytes()),
             kv_bytes = static_cast<double>(latent_kv.nbytes());
  times.time("rope of the last third of the queries", 0, 2 * q_bytes,
             [&] { call("rope", latent_q, cos_of_end, sin_of_end, true, false); });
  times.time("latent_keys", 0, q_bytes + 0.5 * kv_bytes,
             [&] { call("latent_keys", latent_kv, rotated, kPlain); });
  times.time("latent_keys_backward", 0, q_bytes + 1.5 * kv_bytes,
             [&] { call("latent_keys_backward", latent_q, grad_v, kPlain); });
}

// The parts of a layer of experts that are no products, with the sizes of gpt-oss 20B: each token
// has four of 32 experts.
void time_experts(Times& times, const Shape& s) {
  const std::int64_t experts = 32, slots = 8 * s.tokens, width = s.dim * 45 / 64;
  const Tensor keys = at::randint(experts, {slots}, times.normal({1}).options().dtype(at::kLong));
  const Tensor ends = call("sort_slots", keys, experts)[2].cumsum(0, at::kInt);
  const Tensor gate_up = times.normal({slots, 2 * width}), bias = times.normal({experts, 2 * width}),
               grad = times.normal({slots, width});
  const double bytes = static_cast<double>(gate_up.nbytes());
  times.time("sort_slots of 32 kinds", 0, 3 * static_cast<double>(keys.nbytes()),
             [&] { call("sort_slots", keys, experts); });
  times.time("grouped_add", 0, 2 * bytes, [&] { call("grouped_add", gate_up, bias, ends); });
  times.time("grouped_sum", 0, bytes, [&] { call("grouped_sum", gate_up, ends); });
  times.time("clamped_swiglu", 0, 1.5 * bytes,
             [&] { call("clamped_swiglu", gate_up, count_of(ends), 7.0, 1.702); });
  times.time("clamped_swiglu_backward", 0, 2.5 * bytes,
             [&] { call("clamped_swiglu_backward", grad, gate_up, count_of(ends), 7.0, 1.702); });
}

void time_loss(Times& times, const Shape& s) {
  const Tensor h = times.normal({s.tokens, s.dim}), weight = times.normal({s.vocabulary, s.dim}) / 64,
               labels = at::randint(s.vocabulary, {s.tokens}, h.options().dtype(at::kLong)),
               gradient = at::full({}, 1.0 / static_cast<double>(s.tokens), h.options().dtype(at::kFloat));
  const Tensor logits = times.normal({s.tokens, s.vocabulary});
  const Tensors made = call("cross_entropy", logits, labels, std::int64_t{-100});
  const double logit_bytes = static_cast<double>(logits.nbytes());
  times.time("cross_entropy", 0, logit_bytes,
             [&] { call("cross_entropy", logits, labels, std::int64_t{-100}); });
  times.time("cross_entropy_backward", 0, 2 * logit_bytes, [&] {
    call("cross_entropy_backward", gradient, logits, labels, made[1], made[2], std::int64_t{-100});
  });
  const double flops = 6.0 * static_cast<double>(s.tokens) * static_cast<double>(weight.numel());
  for (const std::int64_t chunks : {1, 8})
    times.time(fmt::format("linear_cross_entropy, forward and backward, chunks: {}", chunks), flops, 0, [&] {
      call("linear_cross_entropy", h, weight, labels, gradient, std::int64_t{-100}, s.tokens / chunks);
    });
}

void time_optimizer(Times& times, const Shape& s) {
  const std::int64_t elements = s.dim * (2 * s.dim + 2 * s.dim * s.kv_heads / s.heads + 3 * s.ffn);
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Tensor w = times.normal({elements}, type), grad = times.normal({elements}, type),
                 first = times.normal({elements}, type), second = times.normal({elements}, type).abs();
    const Tensor step = at::full({}, 1.0, w.options().dtype(at::kFloat)), lr = at::full_like(step, 1e-6),
                 found_inf = at::zeros_like(step);
    const double bytes = static_cast<double>(w.nbytes());
    const std::string of =
        fmt::format("AdamW on {:.0f} M elements, {}", static_cast<double>(elements) * 1e-6, in_words(type));
    const Tensor clipped = at::full_like(step, 3.0);
    for (const auto& [clips, scale] : {std::pair("", step), std::pair(", clipped", clipped)})
      for (const bool stochastic : {false, true}) {
        if (stochastic && type != at::kBFloat16) continue;
        const std::vector<std::int64_t> rounding =
            stochastic ? std::vector<std::int64_t>{1, 0, 1, 1, 0} : std::vector<std::int64_t>{};
        times.time(of + clips + (stochastic ? ", rounded stochastically" : ""), 0, 7 * bytes,
                   [&, scale = scale] {
                     call("adamw_", Tensors{w}, Tensors{first}, Tensors{second}, Tensors{grad}, step, lr,
                          scale, found_inf, 0.9, 0.95, 1e-8, 0.1, true, rounding);
                   });
      }
    times.time(of + ", LibTorch's", 0, 7 * bytes, [&] {
      at::_fused_adamw_({w}, {grad}, {first}, {second}, {}, {step}, lr, 0.9, 0.95, 0.1, 1e-8, false, false,
                        step, found_inf);
    });
    times.time(fmt::format("sums_of_squares of as many, {}", in_words(type)), 0, bytes,
               [&] { call("sums_of_squares", Tensors{grad}); });
    const Tensor narrow = grad.to(at::kBFloat16);
    times.time(fmt::format("add_widened of as many in bf16 to a sum of {}", in_words(type)), 0,
               2 * bytes + static_cast<double>(narrow.nbytes()),
               [&] { call("add_widened_", first, narrow); });
    times.time(fmt::format("a copy of as many, {}", in_words(type)), 0, 2 * bytes, [&] { first.copy_(w); });
  }
}

// Quantization of a matrix of two batches' activations, as stored and transposed, and its products
// with w1.
void time_float8(Times& times, const Shape& s, bool emulate) {
  struct Way {
    const char* name;
    Float8Block of_x, of_weight;
    bool fast_accumulation;
  };
  constexpr Float8Block kWhole{0, 0}, kRow{1, 0}, kPiece{1, kFloat8Block},
      kSquare{kFloat8Block, kFloat8Block};
  const std::int64_t dim = std::max(s.dim, kFloat8Block), ffn = std::max(s.ffn, 2 * kFloat8Block);
  const Tensor x = times.normal({2 * s.tokens, dim}), weight = times.normal({ffn, dim});
  const double moved = 1.5 * static_cast<double>(x.nbytes());
  for (const auto& [name, block] :
       {std::pair("one scale", kWhole), std::pair("a scale a row", kRow),
        std::pair("a scale for 1 x 128", kPiece), std::pair("a scale for 128 x 128", kSquare)})
    for (const bool transposed : {false, true}) {
      const Tensor lying = transposed ? x.t() : x;
      times.time(fmt::format("quantize_float8 [{} x {}]{}, {}", x.size(0), x.size(1),
                             transposed ? ", transposed" : "", name),
                 0, moved, [&, b = block] { quantize_float8(lying, b, at::kFloat8_e4m3fn, true); });
    }
  const double flops = 2.0 * static_cast<double>(x.numel()) * static_cast<double>(ffn);
  for (const Way& way : {Way{"one scale each", kWhole, kWhole, true}, Way{"a scale a row", kRow, kRow, true},
                         Way{"a scale a row, without fast sums", kRow, kRow, false},
                         Way{"scales for 1 x 128 and 128 x 128", kPiece, kSquare, false},
                         Way{"scales for 1 x 128", kPiece, kPiece, false}}) {
    const Float8Matrix a = quantize_float8(x, way.of_x, at::kFloat8_e4m3fn, true),
                       b = quantize_float8(weight, way.of_weight, at::kFloat8_e4m3fn, true);
    times.time(fmt::format("float8_mm by w1 [{} x {}], {}", ffn, dim, way.name), flops, 0,
               [&] { float8_mm(a, b, at::kBFloat16, way.fast_accumulation, emulate); });
  }
}

// A matrix of DeepSeek-V3 16B's experts, all on one GPU, with as many rows each: in bf16, in float8
// and what float8 quantizes first.
void time_float8_experts(Times& times, bool emulate) {
  const std::int64_t rows = emulate ? 64 : 16384, in = emulate ? 64 : 2048, out = emulate ? 32 : 1408,
                     experts = emulate ? 4 : 64;
  const Tensor x = times.normal({rows, in}), weight = times.normal({experts, out, in}),
               grad = times.normal({rows, out}), transposed = weight.transpose(1, 2),
               ends = at::arange(1, experts + 1, x.options().dtype(at::kInt)) * (rows / experts);
  const double flops = 2.0 * static_cast<double>(x.numel()) * static_cast<double>(out),
               moved = 1.5 * static_cast<double>(weight.nbytes());
  const std::string of = fmt::format(" [{} x {}] by {} x [{} x {}]", rows, in, experts, out, in);
  const auto quantized = [](const Tensor& b) { return quantize_float8(b, {1, 0}, at::kFloat8_e4m3fn, true); };
  times.time("grouped_mm" + of, flops, 0, [&] { grouped_mm(x, transposed, ends); });
  times.time("grouped_mm" + of + ", of the input", flops, 0, [&] { grouped_mm(grad, weight, ends); });
  times.time("grouped_mm" + of + ", of the weight", flops, 0, [&] { grouped_mm(grad.t(), x, ends); });
  const Float8Matrix rows_of_x = quantize_float8_runs(x, ends),
                     rows_of_grad = quantize_float8_runs(grad, ends), by_outputs = quantized(weight),
                     by_inputs = quantized(transposed);
  for (const bool fast : {true, false})
    times.time("float8_grouped_mm" + of + (fast ? ", fast sums" : ""), flops, 0,
               [&] { float8_grouped_mm(rows_of_x, by_outputs, ends, at::kBFloat16, fast, emulate); });
  times.time("float8_grouped_mm" + of + ", of the input", flops, 0,
             [&] { float8_grouped_mm(rows_of_grad, by_inputs, ends, at::kBFloat16, true, emulate); });
  times.time("quantize_float8_runs of rows", 0, 1.5 * static_cast<double>(x.nbytes()),
             [&] { quantize_float8_runs(x, ends); });
  times.time("quantize_float8 of experts", 0, moved, [&] { quantized(weight); });
  times.time("quantize_float8 of experts, transposed", 0, moved, [&] { quantized(transposed); });
}

}  // namespace

void time_kernels(Checks& checks, c10::Device device) {
  const Shape s =
      device.is_cuda() ? Shape{4096, 4096, 14336, 32, 8, 128, 128256} : Shape{64, 64, 224, 4, 1, 16, 512};
  Times times(checks, device);
  time_products(times, "wq, wo", s.tokens, s.dim, s.dim);
  time_products(times, "wk, wv", s.tokens, s.dim, s.kv_heads * s.head);
  time_products(times, "wq, wk and wv as one", s.tokens, s.dim, (s.heads + 2 * s.kv_heads) * s.head);
  time_products(times, "w1, w3", s.tokens, s.dim, s.ffn);
  time_products(times, "w1 and w3 as one", s.tokens, s.dim, 2 * s.ffn);
  time_products(times, "w2", s.tokens, s.ffn, s.dim);
  time_products(times, "head", s.tokens, s.dim, s.vocabulary);
  time_attention(times, s);
  time_packed_rows(times, device.is_cuda() ? 8192 : 256);
  time_fused(times, s);
  time_experts(times, s);
  time_loss(times, s);
  time_optimizer(times, s);
  time_float8(times, s, device.is_cpu());
  time_float8_experts(times, device.is_cpu());
}

}  // namespace rondo
