// The words of a subcommand: flags with values (`--name VALUE` or `--name=VALUE`), switches, and the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/commands.h"

namespace rondo {

struct FlagReader {
  // `command` begins every message. Throws Error(usage) for an unknown flag (with the nearest known one), a flag
  // without its value, and a switch with one. --help and -h are always known.
  FlagReader(const std::string& command, const Arguments& args, const std::vector<std::string>& with_value,
             const std::vector<std::string>& switches);

  bool has(const std::string& flag) const { return values.contains(flag); }
  // The last value, or `otherwise`.
  std::string text(const std::string& flag, const std::string& otherwise) const;
  // A whole number from `least` on, with K, M, G or T (powers of 1000) after it, as in 100M.
  std::int64_t number(const std::string& flag, std::int64_t least, std::int64_t otherwise) const;

  std::string command;
  std::map<std::string, std::vector<std::string>> values;  // of each flag that was given, in order
  std::vector<std::string> words;                          // that are no flags
};

}  // namespace rondo
