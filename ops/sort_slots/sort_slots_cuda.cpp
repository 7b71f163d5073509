#include "ops/sort_slots/sort_slots_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/kernel/launch.h"
#include "ops/sort_slots/sort_slots.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor, Tensor> sort_slots_cuda(const Tensor& keys_in, std::int64_t kinds) {
  RONDO_ASSERT(kinds >= 1 && kinds <= cuda::kMaxKinds, "sort_slots: a GPU sorts by 1 to 1,024 kinds");
  const cuda::Launch launch(keys_in, "sort_slots");
  auto results = sort_slots_results(keys_in, kinds);
  const Tensor keys = keys_in.contiguous();
  const Tensor workspace =
      at::empty({cuda::sort_slots_workspace(keys.numel(), kinds)}, keys.options().dtype(at::kInt));
  cuda::sort_slots(keys.const_data_ptr<std::int64_t>(), keys.numel(), kinds,
                   workspace.mutable_data_ptr<std::int32_t>(),
                   std::get<0>(results).mutable_data_ptr<std::int64_t>(),
                   std::get<1>(results).mutable_data_ptr<std::int64_t>(),
                   std::get<2>(results).mutable_data_ptr<std::int32_t>(), launch.stream());
  launch.check();
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(rondo, CUDA, m) { m.impl("sort_slots", &sort_slots_cuda); }

}  // namespace rondo
