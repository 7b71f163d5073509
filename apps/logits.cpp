// `rondo-worker logits ...`: what a Hugging Face model says to given tokens, so that anyone can hold this
// program against another. One sequence at a time: memory is that of the model and of one row.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <map>
#include <optional>

#include "apps/logits_input.h"
#include "apps/worker_commands.h"
#include "models/parts/decoder.h"
#include "parallel/simple_fsdp.h"
#include "trainer/hugging_face/folder.h"
#include "trainer/hugging_face/safetensors/writer.h"
#include "trainer/resume/load_weights.h"

namespace rondo {
namespace {

using at::Tensor;

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

safetensors::TensorInfo fp32(const std::string& name, const std::vector<std::int64_t>& shape) {
  return {name, safetensors::Dtype::f32, shape};
}

// A model with all its weights, in fp32, and what is computed with them row by row.
class Evaluation {
 public:
  Evaluation(const hugging_face::Folder& folder, std::int64_t seq_len, bool gradients)
      : model_(make_decoder(folder.config().model, folder.config().sizes)) {
    folder.check(hugging_face::parameters_of(*model_));
    for (const Buffer& buffer : model_->buffers(seq_len)) buffers_.push_back(buffer.value);
    std::map<std::string, ShardedWeights::Parameter> parameters;
    for (const ParameterRule& rule : model_->parameters()) {
      Tensor whole = at::empty({element_count(rule)}, at::kFloat);
      load_weights(whole, folder, rule.hugging_face_name, FlatShard(rule.sizes));
      whole.set_requires_grad(gradients);
      leaves_.push_back(whole);
      parameters[rule.name] = {whole, rule.sizes, {}};
    }
    for (const ExpertBias& bias : model_->expert_biases()) {
      biases_.push_back(at::empty({bias.experts}, at::kFloat));
      load_weights(biases_.back(), folder, bias.hugging_face_name, FlatShard({bias.experts}));
    }
    weights_.emplace(std::move(parameters), sharding_);
  }

  const Decoder& model() const { return *model_; }

  // [1, T, V] of ids [1, T].
  Tensor logits(const Tensor& tokens_BT) const {
    return model_->forward(*weights_,
                           {.tokens_BT = tokens_BT, .buffers = buffers_, .expert_biases = biases_});
  }

  // Adds the row's share of the mean over `predictions` tokens to `gradients`, one tensor a parameter.
  void add_gradients(const Tensor& logits_BTV, const Tensor& tokens_BT, std::int64_t predictions,
                     std::vector<Tensor>& gradients) const {
    const std::int64_t last = tokens_BT.size(1) - 1;
    const Tensor sum = at::cross_entropy_loss(logits_BTV[0].narrow(0, 0, last),
                                              tokens_BT[0].narrow(0, 1, last), {}, at::Reduction::Sum);
    const auto row = torch::autograd::grad({sum / static_cast<double>(predictions)}, leaves_);
    for (std::size_t i = 0; i < row.size(); ++i) gradients[i].add_(row[i]);
  }

  std::vector<Tensor> zero_gradients() const {
    std::vector<Tensor> zeros;
    for (const Tensor& leaf : leaves_) zeros.push_back(at::zeros_like(leaf.detach()));
    return zeros;
  }

 private:
  std::shared_ptr<const Decoder> model_;
  const ShardingOptions sharding_;  // one rank, fp32
  std::vector<Tensor> buffers_, biases_, leaves_;
  std::optional<ShardedWeights> weights_;
};

void write_gradients(const std::string& path, const Decoder& model, const std::vector<Tensor>& gradients) {
  std::vector<std::vector<hugging_face::Parameter>> of_parameter;
  std::vector<safetensors::TensorInfo> tensors;
  for (const ParameterRule& rule : model.parameters()) {
    of_parameter.push_back(hugging_face::stacked(rule.hugging_face_name, rule.sizes));
    for (const hugging_face::Parameter& one : of_parameter.back())
      tensors.push_back(fp32(one.name, one.shape));
  }
  safetensors::Writer writer(path, tensors, {{"format", "pt"}});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::span<const std::byte> left = bytes_of(gradients[i]);
    for (const hugging_face::Parameter& one : of_parameter[i]) {
      const std::size_t bytes = gradients[i].nbytes() / of_parameter[i].size();
      writer.write(one.name, 0, left.first(bytes));
      left = left.subspan(bytes);
    }
  }
  writer.finish();
}

}  // namespace

int run_logits(const std::vector<std::string>& args) {
  const auto options = read_logits_options(args);
  if (!options) return 0;
  const bool gradients_wanted = !options->gradients.empty();
  const Sequences sequences = read_sequences(options->tokens, gradients_wanted ? 2 : 1);
  const auto batch = static_cast<std::int64_t>(sequences.size());
  const auto time = static_cast<std::int64_t>(sequences[0].size());
  const hugging_face::Folder folder(options->folder);
  for (const std::string& warning : folder.warnings())
    std::fprintf(stderr, "rondo: warning: %s\n", warning.c_str());
  const Evaluation evaluation(folder, time, gradients_wanted);
  const std::int64_t vocabulary = evaluation.model().vocabulary();
  check_vocabulary(sequences, vocabulary, options->tokens);

  const c10::AutoGradMode record(gradients_wanted);
  safetensors::Writer writer(options->out, {fp32("logits", {batch, time, vocabulary})}, {{"format", "pt"}});
  std::vector<Tensor> gradients;
  if (gradients_wanted) gradients = evaluation.zero_gradients();
  std::uint64_t written = 0;
  for (const std::vector<std::int64_t>& sequence : sequences) {
    const Tensor tokens_BT = at::tensor(sequence, at::kLong).unsqueeze(0);
    const Tensor logits_BTV = evaluation.logits(tokens_BT).contiguous();
    writer.write("logits", written, bytes_of(logits_BTV));
    written += logits_BTV.nbytes();
    if (gradients_wanted) evaluation.add_gradients(logits_BTV, tokens_BT, batch * (time - 1), gradients);
  }
  writer.finish();
  if (gradients_wanted) write_gradients(options->gradients, evaluation.model(), gradients);
  return 0;
}

}  // namespace rondo
