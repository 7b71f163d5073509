// `rondo config SUBCOMMAND`: checks a configuration, prints it resolved, or prints its schema.
#include <cstdio>

#include "apps/commands.h"
#include "apps/rondo/subcommands.h"
#include "apps/worker_options.h"
#include "config/dump.h"
#include "config/json_schema.h"
#include "config/load.h"
#include "support/flags/flags.h"

namespace rondo {
namespace {

int check_config(const Arguments& args) {
  const auto options = read_check_options(args);
  if (!options) return 0;
  if (!options->traces) {
    print_valid(options->config);
    return 0;
  }
  Arguments words = args;
  words.insert(words.begin(), "check");
  exec_worker(words);
}

int resolve_config(const Arguments& args) {
  Arguments keys;
  Flags flags("config resolve", "Prints every key with its value and origin, as TOML.",
              "`rondo help` lists sections and keys.");
  flags.positional("CONFIG ...", flag::append(&keys), "TOML files; later values override earlier ones",
                   Need::required);
  flags.keys(&keys);
  if (flags.read(args)) std::fputs(to_annotated_toml(load_config(keys)).c_str(), stdout);
  return 0;
}

int print_schema(const Arguments& args) {
  Flags flags("config schema",
              "Prints the JSON schema of configuration files, for editors and other programs.");
  if (flags.read(args)) std::fputs(json_schema().c_str(), stdout);
  return 0;
}

}  // namespace

int run_config(const Arguments& args) {
  return run_subcommand(
      "config",
      {{"check", "check a configuration: exit 0 valid, 3 invalid, 6 not on this machine", check_config},
       {"resolve", "print every key with its value and its origin, as TOML", resolve_config},
       {"schema", "print the JSON schema of configuration files", print_schema}},
      "Shows how `rondo train` reads a configuration.", args);
}

}  // namespace rondo
