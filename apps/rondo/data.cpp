// `rondo data SUBCOMMAND ...`: token files.
#include "apps/commands.h"
#include "apps/rondo/subcommands.h"

namespace rondo {

int run_data(const Arguments& args) {
  return run_subcommand(
      "data",
      {{"tokenize", "convert text, JSONL or a packed corpus to token files, on all cores", run_data_tokenize},
       {"inspect", "print the contents of token files and text, and verify them", run_data_inspect}},
      "Prepares and inspects token files. `rondo data SUBCOMMAND --help` describes a subcommand.", args);
}

}  // namespace rondo
