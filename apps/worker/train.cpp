// `rondo-worker train ...`: one rank of a run.
#include "apps/worker/worker_commands.h"
#include "trainer/run/training_run.h"

namespace rondo {

int run_train(const std::vector<std::string>& args, const std::vector<std::string>& command_line) {
  TrainingRun run(args, command_line);
  const RunOutcome outcome = run.train();
  return run.end(outcome);
}

}  // namespace rondo
