// `rondo-worker logits ...`: writes the logits of a stored model for given tokens, for comparison
// with other programs. Processes one sequence at a time: memory is the model and one row.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "apps/model_source.h"
#include "apps/worker/whole_model.h"
#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/safetensors/writer.h"
#include "trainer/resume/stored_model.h"

namespace rondo {
namespace {

using at::Tensor;

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

safetensors::TensorInfo fp32(const std::string& name, const std::vector<std::int64_t>& shape) {
  return {name, safetensors::Dtype::f32, shape};
}

// Adds the row's part of the mean over `predictions` tokens to `gradients`, one tensor per
// parameter.
void add_gradients(const WholeModel& model, const Tensor& logits_BTV, const Tensor& tokens_BT,
                   std::int64_t predictions, std::vector<Tensor>& gradients) {
  const std::int64_t last = tokens_BT.size(1) - 1;
  const Tensor sum = at::cross_entropy_loss(logits_BTV[0].narrow(0, 0, last), tokens_BT[0].narrow(0, 1, last),
                                            {}, at::Reduction::Sum);
  const auto row = torch::autograd::grad({sum / static_cast<double>(predictions)}, model.leaves());
  for (std::size_t i = 0; i < row.size(); ++i) gradients[i].add_(row[i]);
}

void write_gradients(const std::string& path, const Decoder& model, const std::vector<Tensor>& gradients) {
  std::vector<std::vector<hugging_face::Parameter>> parts;
  std::vector<safetensors::TensorInfo> tensors;
  for (const ParameterRule& rule : model.parameters()) {
    parts.push_back(hugging_face::stacked(rule.hugging_face_name, rule.sizes));
    for (const hugging_face::Parameter& part : parts.back()) tensors.push_back(fp32(part.name, part.shape));
  }
  safetensors::Writer writer(path, tensors, {{"format", "pt"}});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::span<const std::byte> left = bytes_of(gradients[i]);
    for (const hugging_face::Parameter& part : parts[i]) {
      const std::size_t bytes = gradients[i].nbytes() / parts[i].size();
      writer.write(part.name, 0, left.first(bytes));
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
  StoredModel stored(find_model(options->folder).folder);
  const WholeModel model(stored, time, gradients_wanted);
  const std::int64_t vocabulary = model.decoder().vocabulary();
  check_vocabulary(sequences, vocabulary, options->tokens);

  const c10::AutoGradMode record(gradients_wanted);
  safetensors::Writer writer(options->out, {fp32("logits", {batch, time, vocabulary})}, {{"format", "pt"}});
  std::vector<Tensor> gradients;
  if (gradients_wanted)
    for (const Tensor& leaf : model.leaves()) gradients.push_back(at::zeros_like(leaf.detach()));
  std::uint64_t written = 0;
  for (const std::vector<std::int64_t>& sequence : sequences) {
    const Tensor tokens_BT = at::tensor(sequence, at::kLong).unsqueeze(0);
    const Tensor logits_BTV = model.logits(tokens_BT).contiguous();
    writer.write("logits", written, bytes_of(logits_BTV));
    written += logits_BTV.nbytes();
    if (gradients_wanted) add_gradients(model, logits_BTV, tokens_BT, batch * (time - 1), gradients);
  }
  writer.finish();
  if (gradients_wanted) write_gradients(options->gradients, model.decoder(), gradients);
  return 0;
}

}  // namespace rondo
