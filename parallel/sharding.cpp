#include "parallel/sharding.h"

#include <ATen/ops/linear.h>

namespace rondo {

at::Tensor Weights::linear(const at::Tensor& x) const { return at::linear(x, get("weight")); }

}  // namespace rondo
