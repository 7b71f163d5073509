// Creates, lists and hashes the state of a run. Functions name their inputs, and inputs with equal
// names are one tensor, so the state is the union of all inputs. Optimizer state has the placement
// of the parameter that its name has after the prefix. Weights are drawn one tensor at a time, on
// CUDA in place and otherwise on the host, so that at most one is in both memories. The hash chains
// names and bits.
#include "trainer/step/train_state.h"

#include <ATen/ops/zeros.h>
#include <xxhash.h>

#include <cstdio>
#include <unordered_set>

#include "models/parts/initialize.h"
#include "ops/transfer/transfer.h"
#include "support/error.h"
#include "trainer/step/functions/placement.h"
#include "trainer/step/functions/train_step.h"

namespace rondo {
namespace {

using Rules = std::unordered_map<std::string, const ParameterRule*>;

// Returns the parameter that has the placement of a state tensor: for "layers.0.wq.weight" and also
// for "exp_avg.layers.0.wq.weight". Returns nullptr if there is none.
const ParameterRule* rule_of(const StepInput& input, const Rules& rules) {
  if (input.kind == ir::InputKind::parameter) return rules.at(input.name);
  if (input.kind == ir::InputKind::buffer) return nullptr;  // sums over microbatches as well
  const auto rule = rules.find(input.name.substr(input.name.find('.') + 1));
  return rule == rules.end() ? nullptr : rule->second;
}

}  // namespace

TrainState::TrainState(const Decoder& model, const std::vector<const StepFunction*>& functions,
                       std::uint64_t seed, const Mesh& mesh, int rank, std::int64_t seq_len,
                       c10::Device device)
    : mesh_(mesh) {
  std::unordered_map<std::string, at::Tensor> constants;
  for (const Buffer& buffer : model.buffers(seq_len)) constants[buffer.name] = buffer.value;
  std::unordered_set<std::string> biases;
  for (const ExpertBias& bias : model.expert_biases()) biases.insert(bias.name);
  Rules rules;
  for (const ParameterRule& rule : model.parameters()) rules[rule.name] = &rule;

  for (const StepFunction* function : functions) {
    for (const StepInput& input : function->inputs) {
      if (input.kind == ir::InputKind::batch || input.kind == ir::InputKind::saved) continue;
      if (by_name_.contains(input.name)) continue;
      const bool of_model = input.kind == ir::InputKind::parameter || biases.contains(input.name);
      // The bias of a router is on the ranks of its stage; other whole tensors are on all ranks.
      const bool is_writer = mesh.coordinate(rank, of_model ? kStageAxes : kAllAxes) == 0;
      Entry entry{input.name,     input.kind, constants.contains(input.name),
                  of_model,       {},         FlatShard(input.type.sizes),
                  /*whole=*/true, is_writer};
      const bool drawn = input.kind == ir::InputKind::parameter;
      const bool drawn_on_host = drawn && !device.is_cuda();  // CUDA draws the same bits in place
      if (entry.constant) {
        entry.tensor = constants.at(input.name).to(to_aten(input.type.dtype));
      } else {
        entry.tensor =
            at::zeros(input.type.sizes, at::TensorOptions()
                                            .dtype(to_aten(input.type.dtype))
                                            .device(drawn_on_host ? c10::Device(c10::kCPU) : device));
      }
      if (const ParameterRule* rule = entry.constant ? nullptr : rule_of(input, rules)) {
        entry.place = shard_placement_of(*rule, mesh, rank).shard;
        entry.whole = false;
        entry.is_writer = true;
        if (drawn) initialize(entry.tensor, rule->init, seed, rule->name, entry.place);
      }
      entry.tensor = entry.tensor.to(device);
      if (input.on_host) entry.tensor = to_host_memory(entry.tensor);
      by_name_[entry.name] = entries_.size();
      entries_.push_back(std::move(entry));
    }
  }
}

std::vector<at::Tensor> TrainState::inputs_of(const StepFunction& function) const {
  std::vector<at::Tensor> inputs;
  for (const StepInput& input : function.inputs)
    if (input.kind != ir::InputKind::batch) inputs.push_back(tensor(input.name));
  return inputs;
}

std::int64_t TrainState::bytes() const {
  std::int64_t total = 0;
  for (const Entry& entry : entries_) total += static_cast<std::int64_t>(entry.tensor.nbytes());
  return total;
}

std::vector<StatePart> TrainState::parts() const {
  std::vector<StatePart> parts;
  for (const Entry& entry : entries_) {
    if (!entry.of_model && entry.kind != ir::InputKind::optimizer) continue;
    parts.push_back({(entry.of_model ? "model/" : "optimizer/") + entry.name, entry.place, entry.whole,
                     entry.is_writer, entry.tensor});
  }
  return parts;
}

std::string TrainState::hash(ProcessGroups& groups) const {
  std::vector<StatePart> by_name = parts();
  std::sort(by_name.begin(), by_name.end(),
            [](const StatePart& a, const StatePart& b) { return a.name < b.name; });
  XXH64_hash_t hash = 0;
  for (const StatePart& part : by_name) {
    hash = XXH3_64bits_withSeed(part.name.data(), part.name.size(), hash);
    const at::Tensor on_host = part.tensor.cpu();
    hash = XXH3_64bits_withSeed(on_host.const_data_ptr(), on_host.nbytes(), hash);
  }
  const std::vector<std::int64_t> hashes = groups.all_gather(static_cast<std::int64_t>(hash));
  std::vector<std::int64_t> shards;
  for (std::int64_t rank = 0; rank < std::ssize(hashes); ++rank) {
    if (mesh_.coordinate(rank, Axis::dp_replicate) == 0)
      shards.push_back(hashes[static_cast<std::size_t>(rank)]);
  }
  char text[17];
  std::snprintf(
      text, sizeof text, "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(shards.data(), shards.size() * sizeof shards[0])));
  return text;
}

}  // namespace rondo
