// The shard is cast before it is gathered, so that the all-gather moves the smaller type; the gradient is
// cast before it is reduced. Padding is cut off after the gather and added again before the reduce-scatter. A
// plain autograd layer would save the whole weight for its backward. The resharding layers save the shard and
// gather again there. A gradient that is not reduced is added to its sum as soon as it is there, so that a
// backward holds one at a time. A backward may run in two halves (trainer/step/functions/microbatches.h), so
// a layer makes the gradient of its weight only where that is asked for. Contexts carry pointers as integers,
// because autograd saves no C++ objects of other types.
#include "parallel/simple_fsdp.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/float8/float8_linear.h"
#include "ops/grouped_mm/grouped_mm.h"
#include "parallel/collectives.h"
#include "parallel/flat_shard.h"
#include "support/error.h"
#include "support/scope.h"

namespace rondo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A parameter as autograd functions see it. They travel through autograd's contexts as a pointer; what it
// points to outlives the backward (ShardedWeights).
struct Source {
  const std::string& name;
  const ShardedParameter& parameter;
  const FsdpOptions& options;
};

// Autograd saves integers and no addresses.
class SavedSource {
 public:
  static void save(AutogradContext* context, const Source& source) {
    context->saved_data["name"] = reinterpret_cast<std::int64_t>(&source.name);
    context->saved_data["parameter"] = reinterpret_cast<std::int64_t>(&source.parameter);
    context->saved_data["options"] = reinterpret_cast<std::int64_t>(&source.options);
  }
  static Source restore(AutogradContext* context) {
    const auto at = [&](const char* key) { return context->saved_data[key].toInt(); };
    // NOLINTBEGIN(performance-no-int-to-ptr)
    return {*reinterpret_cast<const std::string*>(at("name")),
            *reinterpret_cast<const ShardedParameter*>(at("parameter")),
            *reinterpret_cast<const FsdpOptions*>(at("options"))};
    // NOLINTEND(performance-no-int-to-ptr)
  }
};

at::Tensor gather(const at::Tensor& shard, const Source& source) {
  const PathScope scope(source.name);
  const Sizes& sizes = source.parameter.sizes;
  const AxisGroup& shards = source.parameter.shards;
  at::Tensor flat = shard.to(source.options.compute_dtype);
  flat = all_gather(flat, shards);
  const std::int64_t elements = element_count(sizes);
  if (flat.size(0) != elements) flat = flat.narrow(0, 0, elements);
  return flat.view(sizes);
}

// The shard's gradient; undefined where it was added to the sum instead.
at::Tensor reduce_or_accumulate(const at::Tensor& gradient, const at::Tensor& shard, const Source& source) {
  const PathScope scope(source.name);
  const at::Tensor& sum = source.parameter.sum;
  if (!sum.defined())
    return reduce_gradient(gradient, shard.size(0), source.parameter.shards, source.options)
        .to(shard.scalar_type());
  sum.add_(gradient.reshape({-1}));
  return {};
}

struct Unshard : torch::autograd::Function<Unshard> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& shard, const Source& source) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({shard});
    SavedSource::save(context, source);
    return gather(shard, source);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {
        reduce_or_accumulate(gradients[0], context->get_saved_variables()[0], SavedSource::restore(context)),
        {}};
  }
};

// A linear layer that keeps the shard for its backward instead of the whole weight, and gathers again there.
struct ReshardingLinear : torch::autograd::Function<ReshardingLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& shard,
                            const Source& source) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, shard});
    SavedSource::save(context, source);
    const at::Tensor weight = gather(shard, source);
    std::vector<std::int64_t> out = x.sizes().vec();
    out.back() = weight.size(0);
    return linear_output(x.reshape({-1, weight.size(1)}), weight, source.parameter.float8).view(out);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Source source = SavedSource::restore(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& shard = saved[1];
    const at::Tensor weight = gather(shard, source);
    const at::Tensor gradient = gradients[0].reshape({-1, weight.size(0)});
    const at::Tensor input = x.reshape({-1, weight.size(1)});
    const std::optional<Float8Options>& float8 = source.parameter.float8;
    const at::Tensor grad_x = linear_grad_input(gradient, weight, float8).view_as(x);
    if (!context->needs_input_grad(1)) return {grad_x, {}, {}};
    return {grad_x, reduce_or_accumulate(linear_grad_weight(gradient, input, float8), shard, source), {}};
  }
};

// The same with a matrix for each run of rows: [E, out, in], or [E, in, out] where inputs come first.
struct ReshardingGroupedLinear : torch::autograd::Function<ReshardingGroupedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& shard,
                            const at::Tensor& ends, const Source& source, bool inputs_first) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({x, shard, ends});
    context->saved_data["inputs_first"] = inputs_first;
    SavedSource::save(context, source);
    const at::Tensor weight = gather(shard, source);
    return grouped_mm(x, inputs_first ? weight : weight.transpose(1, 2), ends);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Source source = SavedSource::restore(context);
    const bool inputs_first = context->saved_data["inputs_first"].toBool();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &shard = saved[1], &ends = saved[2], &gradient = gradients[0];
    const at::Tensor weight = gather(shard, source);
    const at::Tensor grad_x = grouped_mm(gradient, inputs_first ? weight.transpose(1, 2) : weight, ends);
    if (!context->needs_input_grad(1)) return {grad_x, {}, {}, {}, {}};
    const at::Tensor grad_weight =
        inputs_first ? grouped_mm(x.t(), gradient, ends) : grouped_mm(gradient.t(), x, ends);
    return {grad_x, reduce_or_accumulate(grad_weight, shard, source), {}, {}, {}};
  }
};

// REQUIRES: outlives the backward of whatever is computed with these weights.
class ShardedWeights final : public Weights {
 public:
  ShardedWeights(ShardedParameters parameters, FsdpOptions options)
      : parameters_(std::move(parameters)), options_(std::move(options)) {}

  at::Tensor get(std::string_view leaf) const override { return unshard(find(leaf)); }

  at::Tensor linear(const at::Tensor& x) const override {
    const Source source = find("weight");
    const ShardedParameter& parameter = source.parameter;
    if (gathers_again(source)) return ReshardingLinear::apply(x, parameter.shard, source);
    return parameter.float8 ? float8_linear(x, unshard(source), *parameter.float8)
                            : at::linear(x, unshard(source));
  }
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
      shards.push_back(it->second.shard);
    return shards;
  }

 private:
  Source find(std::string_view leaf) const {
    const std::string name = module_path() + "." + std::string(leaf);
    const auto it = parameters_.find(name);
    RONDO_ASSERT(it != parameters_.end(), "the model reads a weight that its parameter table lacks: " + name);
    return {it->first, it->second, options_};
  }
  static at::Tensor unshard(const Source& source) { return Unshard::apply(source.parameter.shard, source); }
  bool gathers_again(const Source& source) const {
    return options_.reshard_after_forward && source.parameter.shards.ranks > 1;
  }
  at::Tensor grouped(const at::Tensor& x, const at::Tensor& ends_E, bool inputs_first) const {
    const Source source = find("weight");
    if (gathers_again(source))
      return ReshardingGroupedLinear::apply(x, source.parameter.shard, ends_E, source, inputs_first);
    const at::Tensor weight = unshard(source);
    return rondo::grouped_linear(x, inputs_first ? weight.transpose(1, 2) : weight, ends_E);
  }

  ShardedParameters parameters_;
  FsdpOptions options_;
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
  at::Tensor flat = gradient.reshape({-1});
  const std::int64_t padding = stored * shards.ranks - flat.size(0);
  if (padding > 0) flat = at::constant_pad_nd(flat, {0, padding}, 0);
  return sum_over_replicas(reduce_scatter_sum(flat.to(options.reduce_dtype), shards), options);
}

}  // namespace rondo
