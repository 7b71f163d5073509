// Tensors as rows, for kernels that take the distance from row to row.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// [..., D] as [N, D], the elements of a row side by side; rows may lie apart. Copies where neither holds. A
// number is a row of one.
at::Tensor rows_of(const at::Tensor& x);

}  // namespace rondo
