// Which of some global ids a rank has: the part of a vocabulary, or of a layer's experts, that is here.
//
//   rondo::local_ids(Tensor ids, int first, int count, int otherwise, str group) -> (Tensor, Tensor)
//
//   local[i] = ids[i] - first where first <= ids[i] < first + count, else `otherwise`;  elsewhere[i]: not so
//
// ids: i64 of any shape; local likewise, elsewhere bool. `first` differs between the ranks of `group`, each
// of which has other ids; the kernel does not read the name: it says whose numbers these are to who reads a
// graph (compiler/verify/infer_sharding.h). Runs wherever its operands lie. No autograd.
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
