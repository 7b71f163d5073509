#include "parallel/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include "ops/kernel/op_handle.h"
#include "parallel/saved_group.h"

namespace rondo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The schemas' type of a group's name, and of an all-reduce's reduction.
#if TORCH_VERSION_MINOR < 15
using Name = std::string;
#else
using Name = const c10::IValue&;  // Any
#endif

at::Tensor wait(const at::Tensor& started) {
  static const auto handle = op_handle<at::Tensor(const at::Tensor&)>("_c10d_functional::wait_tensor");
  return handle.call(started);
}

at::Tensor all_reduce(const at::Tensor& tensor, const char* reduction, const AxisGroup& group) {
  if (group.ranks == 1) return tensor;
  static const auto handle =
      op_handle<at::Tensor(const at::Tensor&, Name, Name)>("_c10d_functional::all_reduce");
  return wait(handle.call(tensor, reduction, group.name));
}

// The dispatcher passes names by value.
// NOLINTBEGIN(performance-unnecessary-value-param)
at::Tensor meta_all_gather(const at::Tensor& shard, std::int64_t ranks, Name) {
  std::vector<std::int64_t> sizes = shard.sizes().vec();
  sizes.at(0) *= ranks;
  return at::empty(sizes, shard.options());
}

at::Tensor meta_reduce_scatter(const at::Tensor& full, std::string, std::int64_t ranks, Name) {
  std::vector<std::int64_t> sizes = full.sizes().vec();
  TORCH_CHECK(sizes.at(0) % ranks == 0, "reduce_scatter_tensor: ", sizes[0], " rows do not divide by ", ranks,
              " ranks");
  sizes[0] /= ranks;
  return at::empty(sizes, full.options());
}

at::Tensor meta_all_to_all(const at::Tensor& pieces, c10::SymIntArrayRef, c10::SymIntArrayRef, Name) {
  return at::empty_like(pieces);  // equal pieces
}

at::Tensor meta_all_reduce(const at::Tensor& tensor, Name, Name) { return at::empty_like(tensor); }
// NOLINTEND(performance-unnecessary-value-param)
at::Tensor meta_wait(const at::Tensor& started) { return started; }

at::Tensor gather_or_reduce_scatter(const at::Tensor& x, bool gathers, const AxisGroup& group) {
  return gathers ? all_gather(x.contiguous(), group) : reduce_scatter_sum(x.contiguous(), group);
}
struct GatherOrReduceScatter : torch::autograd::Function<GatherOrReduceScatter> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, bool gathers,
                            const AxisGroup& group) {
    at::AutoDispatchBelowAutograd below_autograd;
    save_group(context, group);
    context->saved_data["gathers"] = gathers;
    return gather_or_reduce_scatter(x, gathers, group);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool gathered = context->saved_data["gathers"].toBool();
    return {gather_or_reduce_scatter(gradients[0], !gathered, saved_group(context)), {}, {}};
  }
};

}  // namespace

at::Tensor all_gather(const at::Tensor& shard, const AxisGroup& group) {
  if (group.ranks == 1) return shard;
  static const auto handle = op_handle<at::Tensor(const at::Tensor&, std::int64_t, Name)>(
      "_c10d_functional::all_gather_into_tensor");
  return wait(handle.call(shard, group.ranks, group.name));
}

at::Tensor reduce_scatter_sum(const at::Tensor& full, const AxisGroup& group) {
  if (group.ranks == 1) return full;
  static const auto handle = op_handle<at::Tensor(const at::Tensor&, std::string, std::int64_t, Name)>(
      "_c10d_functional::reduce_scatter_tensor");
  return wait(handle.call(full, "sum", group.ranks, group.name));
}

at::Tensor all_to_all(const at::Tensor& pieces, const AxisGroup& group) {
  if (group.ranks == 1) return pieces;
  static const auto handle =
      op_handle<at::Tensor(const at::Tensor&, c10::SymIntArrayRef, c10::SymIntArrayRef, Name)>(
          "_c10d_functional::all_to_all_single");
  const std::vector<c10::SymInt> each(static_cast<std::size_t>(group.ranks), pieces.size(0) / group.ranks);
  return wait(handle.call(pieces, each, each, group.name));
}

at::Tensor all_reduce_sum(const at::Tensor& tensor, const AxisGroup& group) {
  return all_reduce(tensor, "sum", group);
}

at::Tensor all_reduce_max(const at::Tensor& tensor, const AxisGroup& group) {
  return all_reduce(tensor, "max", group);
}

at::Tensor all_gather_autograd(const at::Tensor& shard, const AxisGroup& group) {
  return GatherOrReduceScatter::apply(shard, true, group);
}

at::Tensor reduce_scatter_autograd(const at::Tensor& full, const AxisGroup& group) {
  return GatherOrReduceScatter::apply(full, false, group);
}

TORCH_LIBRARY_IMPL(_c10d_functional, Meta, m) {
  m.impl("all_gather_into_tensor", &meta_all_gather);
  m.impl("reduce_scatter_tensor", &meta_reduce_scatter);
  m.impl("all_reduce", &meta_all_reduce);
  m.impl("all_to_all_single", &meta_all_to_all);
  m.impl("wait_tensor", &meta_wait);
}

}  // namespace rondo
