// The state of a run on one rank: parameter shards, optimizer state, accumulators, and the
// constants of the model. A rank of a pipeline has the state of its stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/trace/step_function.h"
#include "models/parts/decoder.h"
#include "parallel/flat_shard.h"
#include "parallel/groups/groups.h"
#include "parallel/mesh.h"

namespace rondo {

// One tensor of the state, as a checkpoint names it.
struct StatePart {
  // "model/<parameter>", "model/<bias of a router>", "optimizer/exp_avg.<parameter>",
  // "optimizer/step"
  std::string name;
  FlatShard place;        // the part of the whole tensor in `tensor`
  bool whole = false;     // not sharded: the same on all ranks that have it
  bool is_writer = true;  // this rank, among those that have it, writes it to checkpoints
  at::Tensor tensor;
  bool of_model() const { return name.starts_with("model/"); }
};

class TrainState {
 public:
  // Creates the state that any of the functions reads, except values that one body saves for
  // another. Initialises parameter `i` of the model's table by its rule and `seed`, constants from
  // the model, and the rest with zeros. The state is on `device`, or in host memory where a
  // function says so. Weights are drawn on CUDA, otherwise on the host, one tensor at a time.
  TrainState(const Decoder& model, const std::vector<const StepFunction*>& functions, std::uint64_t seed,
             const Mesh& mesh, int rank, std::int64_t seq_len, c10::Device device = c10::kCPU);

  const at::Tensor& tensor(const std::string& name) const { return entries_[by_name_.at(name)].tensor; }
  // Returns the state inputs of the function, in its order.
  std::vector<at::Tensor> inputs_of(const StepFunction& function) const;
  std::int64_t bytes() const;
  // Returns the contents of a checkpoint: parameters, biases of routers and optimizer state.
  // Constants are not included, nor are accumulators, which are zero between steps. The tensors
  // share the memory of the state. In host memory they are settled when no step is in flight.
  std::vector<StatePart> parts() const;

  // Hashes (XXH3) names and bits of parts(), in the order of the names, on the ranks of the first
  // replica. Returns 16 hex digits, the same on every rank and for every executor. Collective.
  std::string hash(ProcessGroups& groups) const;

 private:
  struct Entry {
    std::string name;
    ir::InputKind kind;
    bool constant;
    bool of_model;  // a parameter or the bias of a router
    at::Tensor tensor;
    FlatShard place;
    bool whole, is_writer;  // as in StatePart
  };
  Mesh mesh_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace rondo
