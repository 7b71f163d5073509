#include "ops/local_ids/local_ids.h"

#include <ATen/TensorOperators.h>
#include <c10/core/MemoryFormat.h>
#include <torch/library.h>

#include <tuple>

#include "ops/kernel/op_handle.h"

namespace rondo {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair find_local(const at::Tensor& ids, std::int64_t first, std::int64_t count, std::int64_t otherwise,
                std::string_view) {
  const at::Tensor from_first = ids - first;
  const at::Tensor elsewhere = (from_first < 0).bitwise_or(from_first >= count);
  return {from_first.masked_fill(elsewhere, otherwise), elsewhere};
}

at::Tensor take_part(const at::Tensor& x, std::int64_t dim, std::int64_t place, std::string_view) {
  return x.select(dim, place).clone(at::MemoryFormat::Contiguous);
}

}  // namespace

LocalIds local_ids(const at::Tensor& ids, std::int64_t first, std::int64_t count, std::int64_t otherwise,
                   std::string_view group) {
  static const auto handle =
      op_handle<Pair(const at::Tensor&, std::int64_t, std::int64_t, std::int64_t, std::string_view)>(
          "rondo::local_ids");
  auto [local, elsewhere] = handle.call(ids, first, count, otherwise, group);
  return {local, elsewhere};
}

at::Tensor local_part(const at::Tensor& x, std::int64_t dim, std::int64_t place, std::string_view group) {
  static const auto handle =
      op_handle<at::Tensor(const at::Tensor&, std::int64_t, std::int64_t, std::string_view)>(
          "rondo::local_part");
  return handle.call(x, dim, place, group);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("local_part(Tensor x, int dim, int place, str group) -> Tensor");
  m.def("local_ids(Tensor ids, int first, int count, int otherwise, str group) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) {
  m.impl("local_ids", &find_local);
  m.impl("local_part", &take_part);
}

}  // namespace rondo
