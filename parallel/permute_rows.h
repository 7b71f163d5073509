// Rows in another order, and back, without atomics: the backward of a gather is the gather by the inverse.
#pragma once

#include <ATen/core/Tensor.h>

namespace rondo {

// x [T, D], each row taken `copies` times, into the order of `order`: slot t * copies + c is copy c of row t,
// and row i of the result [T * copies, D] is that of slot order[i]. `place` is the inverse of `order`
// (order[place[s]] == s); both int64 [T * copies]. Backward: the sum over a row's copies.
at::Tensor permute_rows(const at::Tensor& x_TD, std::int64_t copies, const at::Tensor& order_N,
                        const at::Tensor& place_N);

}  // namespace rondo
