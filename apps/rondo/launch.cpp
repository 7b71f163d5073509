// `rondo launch`: torchrun's command line without Python. Refuses an invalid configuration once,
// before any rank starts.
#include "apps/commands.h"
#include "config/derived/layout.h"
#include "config/load.h"
#include "launch/launcher.h"
#include "launch/options.h"

namespace rondo {
namespace {

// Checks the configuration. Returns false after printing --help.
bool ranks_can_run(const launch::LaunchOptions& options) {
  if (options.runs_any_program || options.program[0] != "train") return true;
  const Arguments args(options.program.begin() + 1, options.program.end());
  if (!before_train(args)) return false;
  // Nodes may have different numbers of ranks; then the ranks check the layout.
  if (options.nodes == 1) resolve_layout(load_config(args), options.ranks_per_node);
  return true;
}

}  // namespace

int run_launch(const Arguments& args) {
  const launch::LaunchOptions options = launch::parse_options(args);
  return options.wants_help || !ranks_can_run(options) ? 0 : launch::run(options);
}

}  // namespace rondo
