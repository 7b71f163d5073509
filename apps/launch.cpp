// `rondo launch`: torchrun's command line, without Python.
#include "apps/commands.h"
#include "parallel/launch/launcher.h"
#include "parallel/launch/options.h"

namespace rondo {

int run_launch(const Arguments& args) {
  const launch::LaunchOptions options = launch::parse_options(args);
  return options.wants_help ? 0 : launch::run(options);
}

}  // namespace rondo
