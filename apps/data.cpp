// `rondo data SUBCOMMAND ...`: token files.
#include "apps/data_commands.h"
#include "apps/subcommands.h"

namespace rondo {

int run_data(const Arguments& args) {
  return run_subcommand(
      "data",
      {{"tokenize", "text, JSONL or a packed corpus to token files, on all cores", run_data_tokenize},
       {"inspect", "what is in token files and text, and whether it is whole", run_data_inspect}},
      "`rondo data SUBCOMMAND --help` for one of them.", args);
}

}  // namespace rondo
