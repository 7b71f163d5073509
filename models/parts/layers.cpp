// The layers and the way through a decoder, in plain ATen: fused kernels come in by compiler passes alone.
#include "models/parts/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

#include <cmath>

#include "models/parts/activation_checkpoint.h"
#include "ops/kernel/with_dtype.h"
#include "support/scope.h"

namespace rondo {

using at::Tensor;

// Written out, since `rms_norm` is one kernel on CUDA and a composite on CPU.
Tensor rms_norm(const char* name, const Tensor& x, const Weights& weights, double eps) {
  ModuleScope scope(name);
  const Tensor wide = x.to(sum_dtype(x));
  const Tensor inverse_rms = at::rsqrt(at::mean(wide * wide, at::IntArrayRef{-1}, /*keepdim=*/true) + eps);
  return (wide * inverse_rms).to(x.scalar_type()) * weights.get("weight");
}

Tensor linear(const char* name, const Tensor& x, const Weights& weights) {
  ModuleScope scope(name);
  return weights.linear(x);
}

Tensor feed_forward(const char* name, const Tensor& x, const Weights& weights) {
  ModuleScope scope(name);
  const Tensor all = weights.all_gather_sequence(x);
  const Tensor gate = linear("w1", all, weights);
  const Tensor up = linear("w3", all, weights);
  return weights.reduce_scatter_sequence(linear("w2", at::silu(gate) * up, weights));
}

RotaryTables rotary_tables(const ForwardInputs& inputs) {
  const Tensor &cos = inputs.buffers[0], &sin = inputs.buffers[1];
  if (!inputs.positions_BT) {
    const auto rows = [&](const Tensor& table) {
      return table.narrow(0, 0, inputs.tokens_BT.size(1)).unsqueeze(0).unsqueeze(2);
    };
    return {rows(cos), rows(sin)};
  }
  const Tensor& positions = *inputs.positions_BT;
  const std::int64_t batch = positions.size(0), time = positions.size(1);
  const Tensor flat = positions.reshape({-1});
  const auto pick = [&](const Tensor& table) {
    return at::index_select(table, 0, flat).view({batch, time, 1, table.size(1)});
  };
  const Tensor picked_cos = pick(cos);
  const Tensor picked_sin = pick(sin);
  return {picked_cos, picked_sin};
}

Tensor apply_rotary(const Tensor& first, const Tensor& second, const RotaryTables& rope) {
  const Tensor turned_first = first * rope.cos - second * rope.sin;
  const Tensor turned_second = second * rope.cos + first * rope.sin;
  return at::cat({turned_first, turned_second}, -1);
}

std::vector<Buffer> rotary_buffers(const std::vector<double>& frequencies, std::int64_t seq_len) {
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  Tensor cos = at::empty({seq_len, pairs}, at::kDouble), sin = at::empty({seq_len, pairs}, at::kDouble);
  for (std::int64_t i = 0; i < pairs; ++i) {
    for (std::int64_t t = 0; t < seq_len; ++t) {
      const double angle = static_cast<double>(t) * frequencies[static_cast<std::size_t>(i)];
      cos.data_ptr<double>()[t * pairs + i] = std::cos(angle);
      sin.data_ptr<double>()[t * pairs + i] = std::sin(angle);
    }
  }
  return {{"rope.cos", cos}, {"rope.sin", sin}};
}

Tensor decode(const Weights& weights, const ForwardInputs& inputs, const DecoderStack& stack) {
  Tensor embedding_VD, h_ND;
  {
    ModuleScope scope("tok_embeddings");
    embedding_VD = weights.get("weight");
    h_ND = weights.lookup(embedding_VD, inputs.tokens_BT);
  }
  for (std::int64_t layer = 0; layer < stack.n_layers; ++layer) {
    const auto block = [inner = stack.block, layer](const Tensor& h) {
      ModuleScope layers("layers");
      BlockScope scope(std::to_string(layer));
      return inner(h, layer);
    };
    if (!inputs.checkpoint.takes(layer)) {
      h_ND = block(h_ND);
      continue;
    }
    h_ND =
        checkpoint(block, h_ND, weights.leaves("layers." + std::to_string(layer)), inputs.checkpoint.keeps);
  }
  h_ND = rms_norm("norm", h_ND, weights, stack.norm_eps);
  ModuleScope scope("output");
  const Tensor all_ND = weights.all_gather_sequence(h_ND);
  const Tensor logits = stack.tie_embeddings ? at::linear(all_ND, embedding_VD) : weights.linear(all_ND);
  return logits.view({inputs.tokens_BT.size(0), inputs.tokens_BT.size(1), -1});
}

}  // namespace rondo
