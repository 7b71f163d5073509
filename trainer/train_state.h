// Everything that a run would have to keep: parameter shards, optimizer state, accumulators; and the model's
// constants.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/step_function.h"
#include "models/decoder.h"
#include "parallel/groups.h"

namespace rondo {

class TrainState {
 public:
  // Makes the state that the functions read between them, and draws the weights: parameter `i` of the model's
  // table by its rule and `seed`, everything else zero, constants from the model.
  TrainState(const Decoder& model, const std::vector<const StepFunction*>& functions, std::uint64_t seed,
             int rank, int ranks, std::int64_t seq_len);

  // The function's state inputs, in its order.
  std::vector<at::Tensor> inputs_of(const StepFunction& function) const;
  std::int64_t bytes() const;

  // Hash (XXH3) of names and bits of all state on all ranks, constants left out: 16 hex digits, the same on
  // every rank.
  std::string hash(ProcessGroups& groups) const;

 private:
  struct Entry {
    std::string name;
    ir::InputKind kind;
    bool constant;
    at::Tensor tensor;
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace rondo
