// SimpleFSDP (Zhang et al., "SimpleFSDP: Simpler Fully Sharded Data Parallel with torch.compile",
// 2024). Parameters are stored as flat shards (parallel/flat_shard.h). Reading a parameter casts
// and all-gathers it; the backward reduce-scatters its gradient. Replicas of the sharded model then
// sum their gradients, each rank with the ranks that store the same shard (HSDP; DDP where a shard
// is the whole parameter). All are autograd functions over dispatcher ops, so a trace shows every
// collective as a node.
//
// Gradients are summed over ranks and not divided: the loss is already divided by the global number
// of tokens.
//
// The gather and the reduction of a parameter run with its name as their module path
// (support/scope.h). The compiler recognizes their nodes by it.
//
// Shape suffixes: N rows of activations, E experts of this rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/float8/float8_recipe.h"
#include "parallel/mesh.h"

namespace rondo {

struct FsdpOptions {
  AxisGroup replicas{};                       // the ranks that store the same shard
  at::ScalarType compute_dtype = at::kFloat;  // dtype of the all-gather and of the model
  at::ScalarType reduce_dtype = at::kFloat;   // dtype of the gradient's reduction
  bool reshard_after_forward = false;         // linear layers gather again in the backward
};

// A model reads a weight by its name in the open module scope (support/scope.h): in the scope
// "layers.0.attention.wq", get("weight") is the parameter "layers.0.attention.wq.weight".
class Weights {
 public:
  virtual ~Weights() = default;
  // Returns the part of the parameter that this rank computes with, in the compute dtype.
  // Backward: the reduced gradient of the shard in its dtype, or no gradient if it was
  // added to a sum that is not complete (GradientSum).
  virtual at::Tensor get(std::string_view leaf) const = 0;
  // The same for one use whose gradient has another dtype than the weight: the gradient is reduced
  // without a cast to the compute dtype.
  virtual at::Tensor get_for_wide_gradient(std::string_view leaf) const = 0;
  // Multiplies x [..., in] by the transpose of the open scope's "weight" [out, in].
  virtual at::Tensor linear(const at::Tensor& x) const = 0;
  // Returns whether linear() quantizes in the open scope. If so, the gradient of its result must
  // not be a partial sum over ranks: quantizing is not linear.
  virtual bool quantizes() const = 0;
  // Multiplies x [N, in] by the transposes of the weights [E, out, in], one for each run of rows.
  // Run e ends before row ends[e] (ops/grouped_mm/grouped_mm.h).
  virtual at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const = 0;
  // The same product with weights [E, in, out], not transposed.
  virtual at::Tensor grouped_mm(const at::Tensor& x, const at::Tensor& ends_E) const = 0;
  // Returns the shards of the parameters below a module path, in the order of their names.
  virtual std::vector<at::Tensor> leaves(std::string_view module) const = 0;
};

// The sum of the gradients of a parameter over microbatches, to which a backward adds.
struct GradientSum {
  at::Tensor tensor;  // [elements of the part] if `is_whole`, otherwise [stored elements]
  bool is_whole;      // adds gradients before any reduction; otherwise after their reduce-scatter
  // The microbatch is the last: its backward reduces the sum, and returns the gradient of a shard.
  // Always true unless `is_whole`: earlier microbatches add to sums of shards behind the backward.
  bool is_complete;
};

struct ShardedParameter {
  at::Tensor shard;                          // [stored elements], requires grad
  std::vector<std::int64_t> sizes;           // sizes of the part that this rank computes with
  AxisGroup shards{};                        // the ranks among which this part is sharded
  std::optional<GradientSum> sum = {};       // absent: the backward reduces the gradient
  std::optional<Float8Options> float8 = {};  // of a linear layer or experts with float8 products
};
using ShardedParameters = std::map<std::string, ShardedParameter>;

std::shared_ptr<const Weights> sharded_weights(ShardedParameters parameters, const FsdpOptions& options);

// Sums a gradient over the replicas, in reduce_dtype. Returns `gradient` itself with one replica.
at::Tensor sum_over_replicas(const at::Tensor& gradient, const FsdpOptions& options);
// Sums a whole gradient over `shards` and the replicas, in reduce_dtype. Returns this rank's
// [stored] elements.
at::Tensor reduce_gradient(const at::Tensor& gradient, std::int64_t stored, const AxisGroup& shards,
                           const FsdpOptions& options);

}  // namespace rondo
