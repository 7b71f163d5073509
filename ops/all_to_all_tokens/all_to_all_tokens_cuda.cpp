// all_to_all_tokens on CUDA. The host waits for the counts once per call and issues everything else
// on the current stream, which waits for the group's stream.
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include "ops/all_to_all_tokens/all_to_all_tokens.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

// The dispatcher passes names by value.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Tensor all_to_all_tokens_cuda(const Tensor& rows, const Tensor& offered, const Tensor& sent,
                              const Tensor& received, bool back, std::int64_t result_rows,
                              std::string group) {
  const cuda::Launch launch(rows, "all_to_all_tokens");
  const Tensor counts = at::stack({offered, sent, received}).cpu();
  return all_to_all_by_counts(rows, {counts.select(0, 0), counts.select(0, 1), counts.select(0, 2)}, back,
                              result_rows, group);
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_cuda); }

}  // namespace rondo
