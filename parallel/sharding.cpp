#include "parallel/sharding.h"

#include <ATen/ops/linear.h>

#include "parallel/grouped_mm.h"

namespace rondo {

at::Tensor Weights::linear(const at::Tensor& x) const { return at::linear(x, get("weight")); }

at::Tensor Weights::grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const {
  return rondo::grouped_linear(x, get("weight"), ends_E);
}

}  // namespace rondo
