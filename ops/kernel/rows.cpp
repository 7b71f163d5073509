#include "ops/kernel/rows.h"

#include "ops/kernel/filled_rows.h"

namespace rondo {

at::Tensor rows_of(const at::Tensor& x) {
  if (x.dim() == 2 && x.stride(1) == 1) return x;
  return x.contiguous().view({-1, x.dim() == 0 ? 1 : x.size(-1)});
}

at::Tensor with_contiguous_rows(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

std::int64_t filled_rows(const std::optional<at::Tensor>& count, std::int64_t rows) {
  return filled_rows(count ? count->const_data_ptr<std::int32_t>() : nullptr, rows);
}

}  // namespace rondo
