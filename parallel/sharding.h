// How one parameter lies over the ranks, and the seam through which a model reads its weights.
//
// Note [Flat shards]: a parameter is flattened (row-major) and cut into `ranks` equal pieces; the last ones
// are padded with zeros. Rank r holds elements [r * shard, (r + 1) * shard). Every shape shards evenly
// whatever the number of ranks: the padding is less than `ranks` elements, where cutting along the first
// dimension would pad whole rows (4 kv rows over 64 ranks are 16 times the bytes). Padding stays zero: its
// gradient is zero, and AdamW maps zero to zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct FlatShard {
  std::int64_t elements = 0;  // of the whole parameter
  int ranks = 1;
  int rank = 0;

  std::int64_t padded() const { return (elements + ranks - 1) / ranks; }  // elements a rank stores
  std::int64_t begin() const {
    return std::min(elements, rank * padded());
  }  // first global element held here
  std::int64_t end() const { return std::min(elements, (rank + 1) * padded()); }  // one past the last
};

// A model's forward reads weights by their name inside the open module scope (parallel/scope.h): in scope
// "layers.0.attention.wq", `get("weight")` is the parameter "layers.0.attention.wq.weight", whole and in the
// compute dtype.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual at::Tensor get(std::string_view leaf) const = 0;
  // x [..., in] times the transpose of the weight [out, in] of the open scope.
  virtual at::Tensor linear(const at::Tensor& x) const;
  // x [N, in] times the transposes of the weights [E, out, in] of the open scope, one for each run of rows:
  // run e ends before row ends[e] (parallel/grouped_mm.h).
  virtual at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const;
  // The tensors whose gradients the weights below a module path feed, in the order of their names.
  virtual std::vector<at::Tensor> leaves(std::string_view module) const = 0;
};

}  // namespace rondo
