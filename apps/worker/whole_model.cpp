#include "apps/worker/whole_model.h"

#include <ATen/ops/empty.h>

namespace rondo {

WholeModel::WholeModel(StoredModel& stored, std::int64_t max_length, bool gradients)
    : decoder_(stored.decoder()) {
  for (const Buffer& buffer : decoder_->buffers(max_length)) buffers_.push_back(buffer.value.to(at::kFloat));
  ShardedParameters parameters;
  for (const ParameterRule& rule : decoder_->parameters()) {
    at::Tensor whole = at::empty({element_count(rule)}, at::kFloat);
    stored.load(rule.name, FlatShard(rule.sizes), whole);
    whole.set_requires_grad(gradients);
    leaves_.push_back(whole);
    parameters[rule.name] = {whole, rule.sizes, {}};
  }
  for (const ExpertBias& bias : decoder_->expert_biases()) {
    biases_.push_back(at::empty({bias.experts}, at::kFloat));
    stored.load(bias.name, FlatShard({bias.experts}), biases_.back());
  }
  ranks_ = rank_context(std::move(parameters), {});
}

at::Tensor WholeModel::logits(const at::Tensor& tokens_BT) const {
  ForwardInputs inputs = ForwardInputs::of(tokens_BT);
  inputs.buffers = buffers_, inputs.expert_biases = biases_;
  return decoder_->forward(ranks_, inputs);
}

}  // namespace rondo
