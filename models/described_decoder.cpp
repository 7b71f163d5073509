// Builds a decoder, or a stage of one, from its description: the order of its parts, its routers
// and its FLOPs. models/attention/ and models/parts/ contain the computation of the parts.
//
// Shape suffixes: N tokens of this rank, D model dim.
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "models/attention/attention_kinds.h"
#include "models/attention/rotary.h"
#include "models/parts/decoder.h"
#include "models/parts/description.h"
#include "models/parts/layers.h"
#include "models/parts/moe.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using at::Tensor;

std::int64_t head_dims(const GroupedQueryAttention& a) { return a.heads * 2 * a.head_dim; }
std::int64_t head_dims(const LatentAttention& a) {
  return a.heads * (a.plain_width + a.rotated_width + a.value_width);
}

// Returns the share of a causal row's pairs that the mask allows.
double share_of_causal(const AttentionMask& mask, std::int64_t tokens) {
  return attended_pairs(mask, tokens) / attended_pairs({}, tokens);
}

class DescribedDecoder final : public Decoder {
 public:
  DescribedDecoder(Description description, const StagePart& part)
      : d_(std::move(description)), part_(part), table_(described_parameters(d_, part)) {
    for (std::int64_t layer = 0; layer < std::ssize(d_.blocks); ++layer) {
      const Block& block = d_.blocks[static_cast<std::size_t>(layer)];
      const auto* m = std::get_if<MixtureOfExperts>(&block.feed_forward);
      if (m == nullptr) continue;
      if (!routed_tokens_) routed_tokens_ = RoutedTokens{m->experts, m->router.top_k, d_.ends.dim};
      if (layer >= part.first_layer && layer < part.end()) routers_.push_back(layer);
    }
  }

  const std::vector<ParameterRule>& parameters() const override { return table_.rules(); }
  std::int64_t vocabulary() const override { return d_.ends.vocab_size; }
  std::int64_t dim() const override { return d_.ends.dim; }
  std::int64_t layers() const override { return part_.layers; }
  bool ties_embeddings() const override { return d_.ends.tie_embeddings; }
  double load_balance_coeff() const override { return d_.load_balance_coeff; }

  std::shared_ptr<const Decoder> stage(const StagePart& part) const override {
    const StagePart whole = whole_of(d_);
    RONDO_ASSERT(part_ == whole, "stages are those of a whole model");
    RONDO_ASSERT(part.first_layer >= 0 && part.layers >= 0 && part.end() <= whole.layers,
                 "a stage's layers are the model's");
    RONDO_ASSERT(!ties_embeddings() || part == whole, "embedding and head are one matrix, on one stage");
    return std::make_shared<DescribedDecoder>(d_, part);
  }

  std::vector<Buffer> buffers(std::int64_t seq_len) const override {
    std::vector<Buffer> tables = rotary_buffers(d_.rotary, seq_len);
    if (d_.query_growth.scale > 0) tables.push_back(query_growth_buffer(d_.query_growth, seq_len));
    return tables;
  }

  std::vector<std::string> routers() const override {
    std::vector<std::string> paths;
    for (const std::int64_t layer : routers_) paths.push_back("layers." + std::to_string(layer) + ".moe");
    return paths;
  }

  std::vector<ExpertBias> expert_biases() const override {
    std::vector<ExpertBias> biases;
    if (routers_.empty() || !experts_of(routers_[0]).has_bias) return biases;
    for (const std::int64_t layer : routers_) {
      const std::string at = "layers." + std::to_string(layer) + ".";
      biases.push_back(
          {at + "moe.expert_bias", experts_of(layer).experts,
           "model." + at + d_.names.feed_forward + "." + d_.names.router + ".e_score_correction_bias"});
    }
    return biases;
  }

  std::optional<RoutedTokens> routed_tokens() const override { return routed_tokens_; }

  Tensor forward(const RankContext& ranks, const ForwardInputs& inputs) const override {
    const RotaryTables rope = rotary_tables(inputs);
    const auto one_block = [this, &ranks, &inputs, rope](const Tensor& h_ND, std::int64_t layer) {
      return block(h_ND, layer, ranks, rope, inputs);
    };
    return decode(ranks, inputs, {part_, d_.norm_eps, d_.ends.tie_embeddings, one_block});
  }

  // Counts only the routed experts that a token is sent to.
  std::int64_t flops_per_token(std::int64_t seq_len) const override {
    const bool looked_up = part_.embedding && !d_.ends.tie_embeddings;
    std::int64_t active = looked_up ? -d_.ends.vocab_size * d_.ends.dim : 0;
    std::int64_t routed = 0;
    for (const ParameterRule& rule : parameters())
      (rule.style == ParallelStyle::experts ? routed : active) += element_count(rule);
    if (routed_tokens_) active += routed * routed_tokens_->experts_per_token / routed_tokens_->experts;
    return 6 * active + attention_flops_per_token(seq_len);
  }

  std::int64_t attention_flops_per_token(std::int64_t seq_len) const override {
    double widths = 0;
    for (std::int64_t layer = part_.first_layer; layer < part_.end(); ++layer)
      widths += std::visit(
          [&](const auto& kind) {
            return static_cast<double>(head_dims(kind)) * share_of_causal(kind.mask, seq_len);
          },
          block_of(layer).attention);
    return 6 * std::llround(widths * static_cast<double>(seq_len));
  }

 private:
  const Block& block_of(std::int64_t layer) const { return d_.blocks[static_cast<std::size_t>(layer)]; }
  const MixtureOfExperts& experts_of(std::int64_t layer) const {
    return std::get<MixtureOfExperts>(block_of(layer).feed_forward);
  }

  Tensor block(const Tensor& h_ND, std::int64_t layer, const RankContext& ranks, const RotaryTables& rope,
               const ForwardInputs& inputs) const {
    const Block& b = block_of(layer);
    const auto attend = [&](const Tensor& x_ND) {
      return std::visit([&](const auto& kind) { return attention(kind, x_ND, ranks, rope, inputs); },
                        b.attention);
    };
    const auto feed = [&](const Tensor& x_ND) {
      return std::holds_alternative<FeedForward>(b.feed_forward) ? feed_forward("feed_forward", x_ND, ranks)
                                                                 : experts(x_ND, layer, ranks, inputs);
    };
    const auto norm = [&](const char* name, const Tensor& x_ND) {
      return rms_norm(name, x_ND, ranks, d_.norm_eps);
    };
    const auto add = [&](const Tensor& h, const char* name, const auto& part) {
      return h + (b.norms == NormPlacement::before ? part(norm(name, h)) : norm(name, part(h)));
    };
    return add(add(h_ND, "attention_norm", attend), "ffn_norm", feed);
  }

  Tensor experts(const Tensor& x_ND, std::int64_t layer, const RankContext& ranks,
                 const ForwardInputs& inputs) const {
    ModuleScope scope("moe");
    const auto router = static_cast<std::size_t>(std::lower_bound(routers_.begin(), routers_.end(), layer) -
                                                 routers_.begin());
    const SequenceBalance balance = {inputs.rows, d_.sequence_balance_coeff * inputs.sequence_weight,
                                     inputs.context_ranks};
    const MixtureOfExperts& m = experts_of(layer);
    const Tensor bias_E = m.has_bias ? inputs.expert_biases.at(router) : Tensor();
    const MoeOutput moe = mixture_of_experts(m, x_ND, ranks, bias_E, balance);
    if (inputs.loads != nullptr) inputs.loads->at(router) = moe.load;
    return moe.y_TD;
  }

  Description d_;   // of the whole model
  StagePart part_;  // the part that this decoder computes
  ParameterTable table_;
  std::vector<std::int64_t> routers_;            // layers of the part with a router
  std::optional<RoutedTokens> routed_tokens_{};  // of the whole model
};

}  // namespace

std::shared_ptr<const Decoder> make_decoder(Description description) {
  const StagePart whole = whole_of(description);
  return std::make_shared<DescribedDecoder>(std::move(description), whole);
}

}  // namespace rondo
