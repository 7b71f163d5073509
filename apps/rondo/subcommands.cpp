#include "apps/rondo/subcommands.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {

int run_subcommand(const std::string& command, const std::vector<Subcommand>& subcommands,
                   const std::string& notes, const Arguments& args) {
  const std::string place = command.empty() ? "" : command + ": ";
  const std::string program = command.empty() ? "rondo" : "rondo " + command;
  const auto fail = [&](const std::string& problem) {
    throw Error(ExitCode::usage, fmt::format("{}{}; `{} --help` lists them", place, problem, program));
  };
  if (args.empty()) fail("SUBCOMMAND is missing");
  if (args[0] == "--help" || args[0] == "-h") {
    CommandSpec spec{
        .command = command, .usage = program + " SUBCOMMAND ...", .about = notes, .is_choice = true};
    for (const Subcommand& known : subcommands)
      spec.rows.push_back({.names = {known.name}, .meaning = known.summary});
    show_help(spec);
    return 0;
  }
  std::vector<std::string> names;
  for (const Subcommand& known : subcommands) {
    if (known.name == args[0]) return known.run({args.begin() + 1, args.end()});
    names.push_back(known.name);
  }
  fail(fmt::format("unknown subcommand \"{}\"{}", args[0], did_you_mean(args[0], names)));
  return 0;
}

}  // namespace rondo
