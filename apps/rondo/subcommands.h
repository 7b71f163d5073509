// Commands with subcommands: `rondo` itself, and its checkpoint, data and config.
#pragma once

#include <functional>

#include "apps/commands.h"

namespace rondo {

struct Subcommand {
  std::string name;
  std::string summary;  // a line of the help
  std::function<int(const Arguments&)> run;
};

// Runs the subcommand args[0] with the words after it. --help prints `notes` and the list.
// `command`: the words after "rondo", or "". Throws Error(usage) for a missing or unknown
// subcommand.
int run_subcommand(const std::string& command, const std::vector<Subcommand>& subcommands,
                   const std::string& notes, const Arguments& args);

}  // namespace rondo
