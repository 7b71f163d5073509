// `rondo data SUBCOMMAND ...`: token files.
#include <cstdio>

#include "apps/data_commands.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr const char* kHelp =
    "rondo data tokenize ...   text, JSONL or a packed corpus to token files, on all cores\n"
    "rondo data inspect ...    what is in token files and text, and whether it is whole\n\n"
    "`rondo data SUBCOMMAND --help` for one of them.\n";

}  // namespace

int run_data(const Arguments& args) {
  if (args.empty()) throw Error(ExitCode::usage, std::string("data: what to do?\n") + kHelp);
  if (args[0] == "--help" || args[0] == "-h") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const Arguments rest{args.begin() + 1, args.end()};
  if (args[0] == "tokenize") return run_data_tokenize(rest);
  if (args[0] == "inspect") return run_data_inspect(rest);
  throw Error(ExitCode::usage, "unknown \"rondo data " + args[0] + "\"" +
                                   did_you_mean(args[0], {"tokenize", "inspect"}) + "\n" + kHelp);
}

}  // namespace rondo
