// `rondo config check [FILE] [--section.key=value ...]` and `rondo config resolve [FILE] [...]`
#include <cstdio>

#include "apps/commands.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/config/dump.h"
#include "trainer/config/load.h"

namespace rondo {
namespace {

constexpr const char* kUsage =
    "rondo config check [FILE] [--section.key=value ...]     is it valid? exit 0 or 3\n"
    "rondo config resolve [FILE] [--section.key=value ...]   print every key with its value, as TOML\n";

}  // namespace

int run_config(const Arguments& args) {
  const bool asks_help = !args.empty() && (args[0] == "--help" || args[0] == "-h");
  if (asks_help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (args.empty()) throw Error(ExitCode::usage, std::string("what to do with which file?\n") + kUsage);
  if (args[0] != "check" && args[0] != "resolve")
    throw Error(ExitCode::usage, "unknown \"rondo config " + args[0] + "\"" +
                                     did_you_mean(args[0], {"check", "resolve"}) + "\n" + kUsage);
  if (args.size() < 2) throw Error(ExitCode::usage, std::string("which file?\n") + kUsage);
  Arguments flags{args.begin() + 1, args.end()};
  const bool names_file = !flags[0].starts_with("--");
  if (names_file) flags[0] = "--job.config_file=" + flags[0];
  const JobConfig loaded = load_config(flags);
  if (args[0] == "resolve")
    std::fputs(to_toml(loaded).c_str(), stdout);
  else
    std::printf("%s: valid, fingerprint %s\n", names_file ? args[1].c_str() : "defaults and flags",
                fingerprint(loaded).c_str());
  return 0;
}

}  // namespace rondo
