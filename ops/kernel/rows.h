// Views tensors as rows, for kernels with a row stride.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace rondo {

// Returns [..., D] as [N, D] with contiguous rows; rows may be apart. Copies if that is not
// possible. A scalar becomes a row of one.
at::Tensor rows_of(const at::Tensor& x);

// Returns x, or a copy of it, with contiguous rows. REQUIRES: x has a dimension.
at::Tensor with_contiguous_rows(const at::Tensor& x);

// Returns how many of `rows` rows count: the number in `count`, int32 [] on the CPU, within [0,
// rows]. Absent: all of them.
std::int64_t filled_rows(const std::optional<at::Tensor>& count, std::int64_t rows);

}  // namespace rondo
