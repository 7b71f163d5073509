// `rondo-worker tune ...`: the fastest algorithm of each matrix product of a job.
#include "plan/tune.h"

#include <fmt/format.h>

#include <cstdio>

#include "apps/worker/worker_commands.h"
#include "apps/worker_options.h"
#include "support/files/atomic_file.h"

namespace rondo {

int run_tune(const std::vector<std::string>& args) {
  const auto options = read_tune_options(args);
  if (!options) return 0;
  double libtorch_us = 0, us = 0;
  const MatmulTable table = tune_matmuls(options->config, options->world, [&](const MatmulRow& row) {
    if (us == 0)
      fmt::print("{:<64} {:>6} {:>12} {:>10} {:>7}\n", "product", "calls", "LibTorch us", "us", "faster");
    fmt::print("{:<64} {:>6} {:>12.1f} {:>10.1f} {:>6.1f}%\n", row.product, row.calls, row.libtorch_us,
               row.us, 100 * (row.libtorch_us / row.us - 1));
    std::fflush(stdout);
    libtorch_us += row.libtorch_us * static_cast<double>(row.calls);
    us += row.us * static_cast<double>(row.calls);
  });
  replace_file(options->out, to_text(table), FileUse::output);
  fmt::print("all products of the functions: {:.1f} ms -> {:.1f} ms on {}\n", 1e-3 * libtorch_us, 1e-3 * us,
             table.device);
  fmt::print("written to {}; runs take it with --compile.matmul_algorithms={}\n", options->out.string(),
             options->out.string());
  return 0;
}

}  // namespace rondo
