// The shard is cast before the all-gather, and the gradient before its reduction, so that
// collectives move the configured dtypes. Padding is cut off after the all-gather and added before
// the reduce-scatter. A plain autograd layer would save the whole weight for its backward. The
// resharding layers save the shard and gather again there. A gradient that is not reduced is added
// to its sum at once, so that a backward holds one whole gradient at a time; the last microbatch
// reduces each sum there, beside the rest of its backward. A backward may run in
// two halves, so a layer computes the gradient of its weight only if autograd needs it.
#include "parallel/simple_fsdp.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include "ops/float8/float8_linear.h"
#include "ops/grouped_mm/grouped_linear.h"
#include "parallel/collectives.h"
#include "parallel/flat_shard.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Contexts of autograd functions share it, so a backward may outlive the weights.
struct Parameter final : torch::CustomClassHolder, ShardedParameter {
  Parameter(std::string name, ShardedParameter parameter, FsdpOptions options)
      : ShardedParameter(std::move(parameter)), name(std::move(name)), options(std::move(options)) {}
  std::string name;
  FsdpOptions options;
};
using ParameterPtr = c10::intrusive_ptr<Parameter>;

void save_parameter(AutogradContext* context, const ParameterPtr& parameter) {
  context->saved_data["parameter"] = at::IValue::make_capsule(parameter);
}
// The context owns it.
const Parameter& saved_parameter(AutogradContext* context) {
  return dynamic_cast<const Parameter&>(*context->saved_data.at("parameter").toCapsule());
}

at::Tensor gather(const at::Tensor& shard, const Parameter& parameter) {
  const PathScope scope(parameter.name);
  const Sizes& sizes = parameter.sizes;
  const AxisGroup& shards = parameter.shards;
  at::Tensor flat = shard.to(parameter.options.compute_dtype);
  flat = all_gather(flat, shards);
  const std::int64_t elements = element_count(sizes);
  if (flat.size(0) != elements) flat = flat.narrow(0, 0, elements);
  return flat.view(sizes);
}

// Returns the elements of this rank of a whole gradient, summed over `shards` in reduce_dtype.
at::Tensor reduce_scattered(const at::Tensor& gradient, std::int64_t stored, const AxisGroup& shards,
                            const FsdpOptions& options) {
  at::Tensor flat = gradient.reshape({-1});
  const std::int64_t padding = stored * shards.ranks - flat.size(0);
  if (padding > 0) flat = at::constant_pad_nd(flat, {0, padding}, 0);
  return reduce_scatter_sum(flat.to(options.reduce_dtype), shards);
}

// Returns the gradient of the shard; undefined if it was added to a sum that is not complete.
at::Tensor reduce_or_accumulate(const at::Tensor& gradient, const at::Tensor& shard,
                                const Parameter& parameter) {
  const PathScope scope(parameter.name);
  const std::int64_t stored = shard.size(0);
  const at::ScalarType dtype = shard.scalar_type();
  const AxisGroup& shards = parameter.shards;
  const std::optional<GradientSum>& sum = parameter.sum;
  const FsdpOptions& options = parameter.options;
  if (!sum) return reduce_gradient(gradient, stored, shards, options).to(dtype);
  if (!sum->is_whole) {
    sum->tensor.add_(reduce_scattered(gradient, stored, shards, options).to(dtype));
    return sum_over_replicas(sum->tensor, options).to(dtype);
  }
  sum->tensor.add_(gradient.reshape({-1}));
  if (!sum->is_complete) return {};
  return reduce_gradient(sum->tensor, stored, shards, options).to(dtype);
}

struct Unshard : torch::autograd::Function<Unshard> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& shard,
                            const ParameterPtr& parameter) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({shard});
    save_parameter(context, parameter);
    return gather(shard, *parameter);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {reduce_or_accumulate(gradients[0], context->get_saved_variables()[0], saved_parameter(context)),
            {}};
  }
};

// A linear layer that saves the shard for its backward instead of the weight, and gathers
// again there.
struct ReshardingLinear : torch::autograd::Function<ReshardingLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& shard,
                            const ParameterPtr& parameter) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, shard});
    save_parameter(context, parameter);
    const at::Tensor weight = gather(shard, *parameter);
    std::vector<std::int64_t> out = x.sizes().vec();
    out.back() = weight.size(0);
    return linear_output(x.reshape({-1, weight.size(1)}), weight, parameter->float8).view(out);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Parameter& parameter = saved_parameter(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& shard = saved[1];
    const at::Tensor weight = gather(shard, parameter);
    const at::Tensor gradient = gradients[0].reshape({-1, weight.size(0)});
    const at::Tensor input = x.reshape({-1, weight.size(1)});
    const std::optional<Float8Options>& float8 = parameter.float8;
    const at::Tensor grad_x = linear_grad_input(gradient, weight, float8).view_as(x);
    if (!context->needs_input_grad(1)) return {grad_x, {}, {}};
    return {grad_x, reduce_or_accumulate(linear_grad_weight(gradient, input, float8), shard, parameter), {}};
  }
};

// A grouped linear layer that reshards, with a matrix for each run of rows: [E, out, in], or [E,
// in, out] with `inputs_first`.
struct ReshardingGroupedLinear : torch::autograd::Function<ReshardingGroupedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& shard,
                            const at::Tensor& ends, const ParameterPtr& parameter, bool inputs_first) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, shard, ends});
    context->saved_data["inputs_first"] = inputs_first;
    save_parameter(context, parameter);
    const at::Tensor weight = gather(shard, *parameter);
    return grouped_output(x, weight, ends, inputs_first, parameter->float8);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Parameter& parameter = saved_parameter(context);
    const bool inputs_first = context->saved_data["inputs_first"].toBool();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &shard = saved[1], &ends = saved[2], &gradient = gradients[0];
    const at::Tensor weight = gather(shard, parameter);
    const at::Tensor grad_x = grouped_grad_input(gradient, weight, ends, inputs_first, parameter.float8);
    if (!context->needs_input_grad(1)) return {grad_x, {}, {}, {}, {}};
    const at::Tensor grad_weight = grouped_grad_weight(gradient, x, ends, inputs_first, parameter.float8);
    return {grad_x, reduce_or_accumulate(grad_weight, shard, parameter), {}, {}, {}};
  }
};

class ShardedWeights final : public Weights {
 public:
  ShardedWeights(ShardedParameters parameters, const FsdpOptions& options) {
    for (auto& [name, parameter] : parameters)
      parameters_.emplace(name, c10::make_intrusive<Parameter>(name, std::move(parameter), options));
  }

  at::Tensor get(std::string_view leaf) const override { return unshard(find(leaf)); }

  at::Tensor get_for_wide_gradient(std::string_view leaf) const override {
    const at::Tensor weight = unshard(find(leaf));
    if (weight.requires_grad())
      weight.grad_fn()->mutable_input_metadata(weight.output_nr()).set_grad_dtype(std::nullopt);
    return weight;
  }

  at::Tensor linear(const at::Tensor& x) const override {
    const ParameterPtr& parameter = find("weight");
    if (gathers_again(*parameter)) return ReshardingLinear::apply(x, parameter->shard, parameter);
    const std::optional<Float8Options>& float8 = parameter->float8;
    return float8 ? float8_linear(x, unshard(parameter), *float8) : at::linear(x, unshard(parameter));
  }
  bool quantizes() const override { return find("weight")->float8.has_value(); }
  at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const override {
    return grouped(x, ends_E, /*inputs_first=*/false);
  }
  at::Tensor grouped_mm(const at::Tensor& x, const at::Tensor& ends_E) const override {
    return grouped(x, ends_E, /*inputs_first=*/true);
  }

  std::vector<at::Tensor> leaves(std::string_view module) const override {
    const std::string prefix = std::string(module) + ".";
    std::vector<at::Tensor> shards;
    for (auto it = parameters_.lower_bound(prefix); it != parameters_.end() && it->first.starts_with(prefix);
         ++it)
      shards.push_back(it->second->shard);
    return shards;
  }

 private:
  const ParameterPtr& find(std::string_view leaf) const {
    const std::string name = module_path() + "." + std::string(leaf);
    const auto it = parameters_.find(name);
    RONDO_ASSERT(it != parameters_.end(), "the model reads a weight that its parameter table lacks: " + name);
    return it->second;
  }
  static at::Tensor unshard(const ParameterPtr& parameter) {
    return Unshard::apply(parameter->shard, parameter);
  }
  static bool gathers_again(const Parameter& parameter) {
    return parameter.options.reshard_after_forward && parameter.shards.ranks > 1;
  }
  at::Tensor grouped(const at::Tensor& x, const at::Tensor& ends_E, bool inputs_first) const {
    const ParameterPtr& parameter = find("weight");
    if (gathers_again(*parameter))
      return ReshardingGroupedLinear::apply(x, parameter->shard, ends_E, parameter, inputs_first);
    return rondo::grouped_linear(x, unshard(parameter), ends_E, inputs_first, parameter->float8);
  }

  std::map<std::string, ParameterPtr> parameters_;
};

}  // namespace

std::shared_ptr<const Weights> sharded_weights(ShardedParameters parameters, const FsdpOptions& options) {
  return std::make_shared<ShardedWeights>(std::move(parameters), options);
}

at::Tensor sum_over_replicas(const at::Tensor& gradient, const FsdpOptions& options) {
  if (options.replicas.ranks == 1) return gradient;
  return all_reduce_sum(gradient.to(options.reduce_dtype), options.replicas);
}

at::Tensor reduce_gradient(const at::Tensor& gradient, std::int64_t stored, const AxisGroup& shards,
                           const FsdpOptions& options) {
  return sum_over_replicas(reduce_scattered(gradient, stored, shards, options), options);
}

}  // namespace rondo
