// `rondo config check [FILE] [--section.key=value ...]` and `rondo config resolve [FILE] [...]`
#include <cstdio>

#include "apps/commands.h"
#include "apps/subcommands.h"
#include "support/error.h"
#include "trainer/config/dump.h"
#include "trainer/config/load.h"

namespace rondo {
namespace {

// The configuration of the words; std::nullopt: --help is printed.
std::optional<JobConfig> read_config(const std::string& name, const std::string& summary, Arguments words) {
  if (asks_help(words)) {
    std::printf(
        "rondo config %s [FILE] [--section.key=value ...]\n\n%s `rondo help` lists sections and keys.\n",
        name.c_str(), summary.c_str());
    return std::nullopt;
  }
  if (words.empty())
    throw Error(ExitCode::usage,
                "config " + name + ": FILE is missing; `rondo config " + name + " --help` shows the usage");
  if (!words[0].starts_with("--")) words[0] = "--job.config_file=" + words[0];
  return load_config(words);
}

int check_config(const Arguments& args) {
  const auto config = read_config("check", "Is it valid? Exit code: 0 yes, 3 no.", args);
  if (!config) return 0;
  const bool names_file = !args[0].starts_with("--");
  std::printf("%s: valid, fingerprint %s\n", names_file ? args[0].c_str() : "defaults and flags",
              fingerprint(*config).c_str());
  return 0;
}

int resolve_config(const Arguments& args) {
  const auto config = read_config("resolve", "Prints every key with its value, as TOML.", args);
  if (config) std::fputs(to_toml(*config).c_str(), stdout);
  return 0;
}

}  // namespace

int run_config(const Arguments& args) {
  return run_subcommand("config",
                        {{"check", "is a configuration valid? exit 0 or 3", check_config},
                         {"resolve", "print every key with its value, as TOML", resolve_config}},
                        "Both take [FILE] [--section.key=value ...].", args);
}

}  // namespace rondo
