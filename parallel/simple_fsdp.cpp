// The shard is cast before it is gathered, so that the all-gather moves the smaller type; the gradient is
// cast before it is reduced. Padding is cut off after the gather and added again before the reduce-scatter. A
// plain autograd layer would save the whole weight for its backward. The resharding layers save the shard and
// gather again there. A gradient that is not reduced is added to its sum as soon as it is there, so that a
// backward holds one at a time. A backward may run in two halves (trainer/step/functions/microbatches.h), so
// a layer makes the gradient of its weight only where that is asked for. Contexts carry pointers as integers,
// because autograd saves no C++ objects of other types.
#include "parallel/simple_fsdp.h"

#include <ATen/ops/constant_pad_nd.h>
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
  const ShardedWeights::Parameter& parameter;
  const ShardingOptions& options;
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
            *reinterpret_cast<const ShardedWeights::Parameter*>(at("parameter")),
            *reinterpret_cast<const ShardingOptions*>(at("options"))};
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
at::Tensor hand_on(const at::Tensor& gradient, const at::Tensor& shard, const Source& source) {
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
    return {hand_on(gradients[0], context->get_saved_variables()[0], SavedSource::restore(context)), {}};
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
    return {grad_x, hand_on(linear_grad_weight(gradient, input, float8), shard, source), {}};
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
    return {grad_x, hand_on(grad_weight, shard, source), {}, {}, {}};
  }
};

}  // namespace

at::Tensor sum_over_replicas(const at::Tensor& gradient, const ShardingOptions& options) {
  if (options.replicas.ranks == 1) return gradient;
  return all_reduce_sum(gradient.to(options.reduce_dtype), options.replicas);
}

at::Tensor reduce_gradient(const at::Tensor& gradient, std::int64_t stored, const AxisGroup& shards,
                           const ShardingOptions& options) {
  at::Tensor flat = gradient.reshape({-1});
  const std::int64_t padding = stored * shards.ranks - flat.size(0);
  if (padding > 0) flat = at::constant_pad_nd(flat, {0, padding}, 0);
  return sum_over_replicas(reduce_scatter_sum(flat.to(options.reduce_dtype), shards), options);
}

ShardedWeights::ShardedWeights(std::map<std::string, Parameter> parameters, const ShardingOptions& options)
    : parameters_(std::move(parameters)), options_(options) {}

const std::pair<const std::string, ShardedWeights::Parameter>& ShardedWeights::find(
    std::string_view leaf) const {
  const std::string name = module_path() + "." + std::string(leaf);
  const auto found = parameters_.find(name);
  RONDO_ASSERT(found != parameters_.end(),
               "the model reads a weight that its parameter table lacks: " + name);
  return *found;
}

std::vector<at::Tensor> ShardedWeights::leaves(std::string_view module) const {
  const std::string prefix = std::string(module) + ".";
  std::vector<at::Tensor> found;
  for (auto it = parameters_.lower_bound(prefix); it != parameters_.end() && it->first.starts_with(prefix);
       ++it)
    found.push_back(it->second.shard);
  return found;
}

at::Tensor ShardedWeights::get(std::string_view leaf) const {
  const auto& [name, parameter] = find(leaf);
  return Unshard::apply(parameter.shard, Source{name, parameter, options_});
}

at::Tensor ShardedWeights::linear(const at::Tensor& x) const {
  const auto& [name, parameter] = find("weight");
  if (!options_.reshard_after_forward || parameter.shards.ranks == 1)
    return parameter.float8 ? float8_linear(x, get("weight"), *parameter.float8) : Weights::linear(x);
  return ReshardingLinear::apply(x, parameter.shard, Source{name, parameter, options_});
}

at::Tensor ShardedWeights::grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const {
  const auto& [name, parameter] = find("weight");
  if (!options_.reshard_after_forward || parameter.shards.ranks == 1)
    return Weights::grouped_linear(x, ends_E);
  return ReshardingGroupedLinear::apply(x, parameter.shard, ends_E, Source{name, parameter, options_}, false);
}

at::Tensor ShardedWeights::grouped_product(const at::Tensor& x, const at::Tensor& ends_E) const {
  const auto& [name, parameter] = find("weight");
  if (!options_.reshard_after_forward || parameter.shards.ranks == 1)
    return Weights::grouped_product(x, ends_E);
  return ReshardingGroupedLinear::apply(x, parameter.shard, ends_E, Source{name, parameter, options_}, true);
}

at::Tensor ShardedWeights::lookup(const at::Tensor& embedding_VD, const at::Tensor& ids_BT) const {
  return vocabulary_parallel_lookup(embedding_VD, ids_BT.reshape({-1}), options_.tensor);
}

at::Tensor ShardedWeights::all_gather_sequence(const at::Tensor& x_ND) const {
  return gather_tokens(x_ND, options_.tensor.group);
}

at::Tensor ShardedWeights::reduce_scatter_sequence(const at::Tensor& partial_sums) const {
  return scatter_token_sums(partial_sums, options_.tensor.group);
}

at::Tensor ShardedWeights::all_gather_context(const at::Tensor& x_BN) const {
  return gather_context(x_BN, options_.context);
}

at::Tensor ShardedWeights::sum_over_context(const at::Tensor& x_B) const {
  return rondo::sum_over_context(x_B, options_.context);
}

at::Tensor ShardedWeights::attend(const AttentionOperands& own) const {
  return attend_over_context(own, options_.context);
}

Dispatched ShardedWeights::dispatch(const at::Tensor& x_TD, const at::Tensor& experts_TK,
                                    const at::Tensor& tokens_per_expert) const {
  return dispatch_tokens(x_TD, experts_TK, tokens_per_expert, options_.experts);
}

at::Tensor ShardedWeights::on_one_sharer(const at::Tensor& x) const {
  return on_first_sharer(x, options_.experts);
}

at::Tensor ShardedWeights::combine(const at::Tensor& rows_RD, const Dispatched& dispatched,
                                   const at::Tensor& scores_TK) const {
  return combine_rows(rows_RD, dispatched, scores_TK, options_.experts);
}

}  // namespace rondo
