// The layers and the forward of a decoder. Steps that are not plain ATen are Rondo's own ops in
// eager runs too: a compiler pass could not fuse them with the same bits.
#include "models/parts/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>

#include "models/parts/activation_checkpoint.h"
#include "ops/kernel/with_dtype.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {

using at::Tensor;

Tensor rms_norm(const char* name, const Tensor& x, const RankContext& ranks, double eps) {
  ModuleScope scope(name);
  return rms_norm_of(x, ranks.weights->get("weight"), eps);
}

// Sums the ranks' sums of squares as layers sum their outputs over all tokens, then gathers the
// sums. The backward thus sums the gradients of the sums over ranks.
Tensor shared_rms_norm(const char* name, const Tensor& x, std::int64_t width, const RankContext& ranks,
                       double eps) {
  if (x.size(-1) == width) return rms_norm(name, x, ranks, eps);
  ModuleScope scope(name);
  const Tensor wide = x.to(sum_dtype(x));
  const Tensor squares_T1 = at::sum(wide * wide, at::IntArrayRef{-1}, /*keepdim=*/true);
  const Tensor all_T1 = ranks.tensor->all_gather(ranks.tensor->reduce_scatter(squares_T1));
  const Tensor inverse_rms = at::rsqrt(all_T1 / static_cast<double>(width) + eps);
  return (wide * inverse_rms).to(x.scalar_type()) * ranks.weights->get("weight");
}

Tensor unweighted_rms_norm(const Tensor& x, double eps) {
  return rms_norm_of(x, x.new_ones({x.size(-1)}), eps);
}

Tensor linear(const char* name, const Tensor& x, const RankContext& ranks) {
  ModuleScope scope(name);
  return ranks.weights->linear(x);
}

bool quantizes(const char* name, const RankContext& ranks) {
  ModuleScope scope(name);
  return ranks.weights->quantizes();
}

Tensor feed_forward(const char* name, const Tensor& x, const RankContext& ranks) {
  ModuleScope scope(name);
  const Tensor all = ranks.tensor->all_gather(x);
  const Tensor gate = linear("w1", all, ranks);
  const Tensor up = linear("w3", all, ranks);
  return ranks.tensor->reduce_scatter(linear("w2", swiglu_of(gate, up), ranks));
}

Tensor decode(const RankContext& ranks, const ForwardInputs& inputs, const DecoderStack& stack) {
  const StagePart& part = stack.part;
  RONDO_ASSERT(inputs.tokens_BT.defined() == part.embedding && inputs.hidden_ND.has_value() != part.embedding,
               "a part with the embedding begins with tokens, and any other with what the one before gave");
  Tensor embedding_VD, h_ND;
  if (part.embedding) {
    ModuleScope scope("tok_embeddings");
    embedding_VD = ranks.weights->get("weight");
    h_ND = ranks.tensor->embedding(embedding_VD, inputs.tokens_BT);
  } else {
    h_ND = *inputs.hidden_ND;
  }
  for (std::int64_t layer = part.first_layer; layer < part.end(); ++layer) {
    const auto block = [inner = stack.block, layer](const Tensor& h) {
      ModuleScope layers("layers");
      BlockScope scope(std::to_string(layer));
      return inner(h, layer);
    };
    if (!inputs.checkpoint.takes(layer)) {
      h_ND = block(h_ND);
      continue;
    }
    h_ND = checkpoint(block, h_ND, ranks.weights->leaves("layers." + std::to_string(layer)),
                      inputs.checkpoint.keeps);
  }
  if (!part.head) return h_ND;
  h_ND = rms_norm("norm", h_ND, ranks, stack.norm_eps);
  ModuleScope scope("output");
  const Tensor all_ND = ranks.tensor->all_gather(h_ND);
  if (inputs.head)
    return inputs.head(all_ND,
                       stack.tie_embeddings ? embedding_VD : ranks.weights->get_for_wide_gradient("weight"));
  const Tensor logits =
      stack.tie_embeddings ? at::linear(all_ND, embedding_VD) : ranks.weights->linear(all_ND);
  return logits.view({inputs.rows, inputs.length, -1});
}

}  // namespace rondo
