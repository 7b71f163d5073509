// `rondo-worker play DESCRIPTORS`: the ranks of a pool (launch/rank_pool.h), started by
// `rondo prove` and tests.
#include "apps/exit_code.h"
#include "apps/worker/worker_commands.h"
#include "launch/rank_pool.h"

namespace rondo {
namespace {

int play_one(const std::vector<std::string>& flags) {
  return exit_code_of([&] { return run_train(flags, flags); });
}

}  // namespace

int run_play(const std::vector<std::string>& args) {
  return launch::serve_runs(args.empty() ? "" : args[0], &play_one);
}

}  // namespace rondo
