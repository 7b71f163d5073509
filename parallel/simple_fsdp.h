// SimpleFSDP: parameters live as flat shards (parallel/flat_shard.h); where the model reads one, it is cast
// and all-gathered, and its gradient is reduce-scattered. Replicas of the whole sharded model (HSDP; DDP,
// where a shard is all of it) add their gradients up after that, each rank with those that hold the same
// shard. All of it is autograd functions over dispatcher ops, so a trace shows every collective as a node.
// (Zhang et al., "SimpleFSDP: Simpler Fully Sharded Data Parallel with torch.compile", 2024.)
//
// Gradients are summed over ranks and not divided: the loss is already divided by the global number of
// tokens.
//
// What belongs to gathering and reducing a parameter runs with the parameter's name as its module path
// (support/scope.h): that is how the compiler knows these nodes.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/float8/float8_recipe.h"
#include "parallel/context_parallel.h"
#include "parallel/expert_parallel.h"
#include "parallel/mesh.h"
#include "parallel/sharding.h"
#include "parallel/tensor_parallel.h"

namespace rondo {

struct ShardingOptions {
  AxisGroup replicas{};                       // the ranks that hold the same shard
  TensorParallel tensor{};                    // the ranks that share each layer
  ContextParallel context{};                  // the ranks that share each row of the batch
  ExpertParallel experts{};                   // the ranks that share the experts
  at::ScalarType compute_dtype = at::kFloat;  // what the model sees, and what is gathered
  at::ScalarType reduce_dtype = at::kFloat;   // what gradients are reduced in
  bool reshard_after_forward = false;  // gather a linear's weight again in the backward instead of keeping it
};

// The sum over the replicas of what each of them has of a gradient, in reduce_dtype; with one replica
// `gradient` itself.
at::Tensor sum_over_replicas(const at::Tensor& gradient, const ShardingOptions& options);
// Of a whole gradient, of which each rank has a summand: the sum over the `shards` and the replicas, in
// reduce_dtype, and of that the [stored] elements that are this rank's.
at::Tensor reduce_gradient(const at::Tensor& gradient, std::int64_t stored, const AxisGroup& shards,
                           const ShardingOptions& options);

// Reading a weight gives the whole parameter in compute_dtype. Backward: the gradient is reduced, and cast to
// the shard's dtype; or it is added as it is to a sum, which somebody else reduces, and the shard gets none.
class ShardedWeights final : public Weights {
 public:
  struct Parameter {
    at::Tensor shard;                 // [stored elements], requires grad
    std::vector<std::int64_t> sizes;  // of what this rank computes with
    AxisGroup shards;                 // the ranks that share one copy of that
    at::Tensor sum = {};  // [elements of `sizes`], where backwards add gradients up; undefined: they reduce
    std::optional<Float8Options> float8 = {};  // of a linear layer whose products are of float8
  };
  // REQUIRES: `options` and this object outlive the backward of whatever is computed with these weights.
  ShardedWeights(std::map<std::string, Parameter> parameters, const ShardingOptions& options);

  at::Tensor get(std::string_view leaf) const override;
  at::Tensor linear(const at::Tensor& x) const override;
  at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const override;
  at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& ends_E) const override;
  std::vector<at::Tensor> leaves(std::string_view module) const override;
  at::Tensor lookup(const at::Tensor& embedding_VD, const at::Tensor& ids_BT) const override;
  at::Tensor all_gather_sequence(const at::Tensor& x_ND) const override;
  at::Tensor reduce_scatter_sequence(const at::Tensor& partial_sums) const override;
  at::Tensor all_gather_context(const at::Tensor& x_BN) const override;
  at::Tensor sum_over_context(const at::Tensor& x_B) const override;
  at::Tensor attend(const AttentionOperands& own) const override;
  Dispatched dispatch(const at::Tensor& x_TD, const at::Tensor& experts_TK,
                      const at::Tensor& tokens_per_expert) const override;
  at::Tensor on_one_sharer(const at::Tensor& x) const override;
  at::Tensor combine(const at::Tensor& rows_RD, const Dispatched& dispatched,
                     const at::Tensor& scores_TK) const override;

 private:
  const std::pair<const std::string, Parameter>& find(std::string_view leaf) const;

  std::map<std::string, Parameter> parameters_;
  const ShardingOptions& options_;
};

}  // namespace rondo
