// `rondo launch`: torchrun's command line, without Python.
#include <cstdio>

#include "apps/commands.h"
#include "parallel/launch/flags.h"
#include "parallel/launch/launcher.h"
#include "parallel/launch/options.h"

namespace rondo {

int run_launch(const Arguments& args) {
  const launch::LaunchOptions options = launch::parse_options(args);
  if (options.wants_help) {
    std::fputs(launch::help_text().c_str(), stdout);
    return 0;
  }
  return launch::run(options);
}

}  // namespace rondo
