#include "trainer/train_state.h"

#include <ATen/ops/zeros.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

#include "models/initialize.h"
#include "parallel/error.h"
#include "parallel/sharding.h"

namespace rondo {

TrainState::TrainState(const Decoder& model, const std::vector<const StepFunction*>& functions,
                       std::uint64_t seed, int rank, int ranks, std::int64_t seq_len) {
  std::unordered_map<std::string, at::Tensor> constants;
  for (const Buffer& buffer : model.buffers(seq_len)) constants[buffer.name] = buffer.value;
  std::unordered_map<std::string, const ParameterRule*> rules;
  for (const ParameterRule& rule : model.parameters()) rules[rule.name] = &rule;

  for (const StepFunction* function : functions) {
    for (const StepInput& input : function->inputs) {
      if (input.kind == ir::InputKind::batch || by_name_.contains(input.name)) continue;
      Entry entry{input.name, input.kind, constants.contains(input.name), {}};
      if (entry.constant) {
        entry.tensor = constants.at(input.name);
      } else {
        entry.tensor = at::zeros(input.type.sizes, to_aten(input.type.dtype));
      }
      if (input.kind == ir::InputKind::parameter) {
        const ParameterRule& rule = *rules.at(input.name);
        const FlatShard shard{element_count(rule), ranks, rank};
        initialize(entry.tensor, rule.init, seed, rule.name, shard.begin(), shard.end());
      }
      by_name_[entry.name] = entries_.size();
      entries_.push_back(std::move(entry));
    }
  }
}

std::vector<at::Tensor> TrainState::inputs_of(const StepFunction& function) const {
  std::vector<at::Tensor> inputs;
  for (const StepInput& input : function.inputs)
    if (input.kind != ir::InputKind::batch) inputs.push_back(entries_[by_name_.at(input.name)].tensor);
  return inputs;
}

std::int64_t TrainState::bytes() const {
  std::int64_t total = 0;
  for (const Entry& entry : entries_) total += static_cast<std::int64_t>(entry.tensor.nbytes());
  return total;
}

std::string TrainState::hash(ProcessGroups& groups) const {
  XXH64_hash_t mine = 0;
  for (const Entry& entry : entries_) {
    if (entry.constant) continue;
    mine = XXH3_64bits_withSeed(entry.name.data(), entry.name.size(), mine);
    mine = XXH3_64bits_withSeed(entry.tensor.const_data_ptr(), entry.tensor.nbytes(), mine);
  }
  const std::vector<std::int64_t> all = groups.all_gather(static_cast<std::int64_t>(mine));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(all.data(), all.size() * sizeof all[0])));
  return text;
}

}  // namespace rondo
