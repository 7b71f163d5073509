// Selects the global ids that a rank has: its part of a vocabulary, or of a layer's experts.
//
//   rondo::local_ids(Tensor ids, int first, int count, int otherwise, str group)
//     -> (Tensor local, Tensor elsewhere)
//
//   local[i] = ids[i] - first if first <= ids[i] < first + count, else `otherwise`
//   elsewhere[i]: not in this range
//
// ids is i64 of any shape; so is local; elsewhere is bool. `first` differs between the ranks of
// `group`, each of which has other ids. The kernel ignores the group's name, which tells readers of
// a graph whose ids these are (compiler/verify/infer_sharding.h). Runs on the device of its
// operands. Not differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

namespace rondo {

struct LocalIds {
  at::Tensor local, elsewhere;
};
LocalIds local_ids(const at::Tensor& ids, std::int64_t first, std::int64_t count, std::int64_t otherwise,
                   std::string_view group);

at::Tensor local_part(const at::Tensor& x, std::int64_t dim, std::int64_t place, std::string_view group);

}  // namespace rondo
