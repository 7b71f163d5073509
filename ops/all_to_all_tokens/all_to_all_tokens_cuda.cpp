// all_to_all_tokens on CUDA. The host waits for the counts, once a call, and issues everything else: copies
// of runs on the current stream, and the group's all-to-all, which that stream waits for.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ops/all_to_all_tokens/all_to_all_tokens.h"
#include "ops/kernel/launch.h"

namespace rondo {
namespace {

using at::Tensor;

// Copies rows between tensors of rows of equal width.
class RowCopies {
 public:
  RowCopies(const Tensor& rows, cudaStream_t stream)
      : row_bytes_(rows.size(1) * rows.element_size()), stream_(stream) {}

  void copy(const Tensor& to, std::int64_t to_row, const Tensor& from, std::int64_t from_row,
            std::int64_t rows) const {
    if (rows == 0) return;
    C10_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(to.mutable_data_ptr()) + to_row * row_bytes_,
                                   static_cast<const char*>(from.const_data_ptr()) + from_row * row_bytes_,
                                   static_cast<std::size_t>(rows * row_bytes_), cudaMemcpyDeviceToDevice,
                                   stream_));
  }

 private:
  std::int64_t row_bytes_;
  cudaStream_t stream_;
};

Tensor all_to_all_tokens_cuda(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
                              std::int64_t result_rows, std::string group) {
  const cuda::Launch launch(rows, "all_to_all_tokens");
  const Tensor x = rows.contiguous();
  const std::int64_t ranks = sent.size(0), experts = sent.size(1);
  const Tensor counts = at::cat({sent.reshape(-1), received.reshape(-1)}).cpu();
  const std::int32_t* const counts_sent = counts.const_data_ptr<std::int32_t>();
  AllToAllPlan plan = plan_all_to_all(counts_sent, counts_sent + ranks * experts, ranks, experts, back,
                                      x.size(0), result_rows);
  const auto backend = c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CUDA);
  const RowCopies copies(x, launch.stream());
  const Tensor result = at::empty({result_rows, x.size(1)}, x.options());
  if (!back) {
    Tensor by_rank = at::empty({plan.rows_from_others, x.size(1)}, x.options()), input = x;
    backend->alltoall_base(by_rank, input, plan.from_others, plan.to_others)->wait();
    std::int64_t filled = 0;
    for (const AllToAllRun& run : plan.runs) {
      copies.copy(result, run.by_expert, by_rank, run.by_rank, run.rows);
      filled += run.rows;
    }
    result.narrow(0, filled, result_rows - filled).zero_();
    return result;
  }
  Tensor by_rank = at::zeros({plan.rows_from_others, x.size(1)}, x.options()), output = result;
  for (const AllToAllRun& run : plan.runs) copies.copy(by_rank, run.by_rank, x, run.by_expert, run.rows);
  backend->alltoall_base(output, by_rank, plan.to_others, plan.from_others)->wait();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_cuda); }

}  // namespace rondo
