#include "tests/cuda/int_tensors.h"

#include <ATen/ops/tensor.h>

namespace rondo {

at::Tensor ints(const std::vector<std::int32_t>& values) { return at::tensor(values, at::kInt); }
const std::int32_t* data(const at::Tensor& x) { return x.const_data_ptr<std::int32_t>(); }

}  // namespace rondo
