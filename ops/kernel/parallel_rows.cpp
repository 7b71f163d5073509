#include "ops/kernel/parallel_rows.h"

#include <ATen/Parallel.h>

namespace rondo {

void parallel_runs(std::int64_t count, std::int64_t grain,
                   const std::function<void(std::int64_t begin, std::int64_t end)>& run) {
  at::parallel_for(0, count, grain, run);
}

}  // namespace rondo
