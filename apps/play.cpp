// `rondo-worker play FD`: one rank of a pool (launch/rank_pool.h), started by `rondo prove` and
// tests.
#include "apps/exit_code.h"
#include "apps/worker_commands.h"
#include "launch/rank_pool.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

int play_one(const std::vector<std::string>& flags) {
  return exit_code_of([&] { return run_train(flags, flags); });
}

}  // namespace

int run_play(const std::vector<std::string>& args) {
  const auto socket = args.size() == 1 ? number_in<int>(args[0], 0, 1 << 20) : std::nullopt;
  if (!socket) throw Error(ExitCode::usage, "rondo-worker play is started by rondo prove");
  return launch::serve_runs(*socket, &play_one);
}

}  // namespace rondo
