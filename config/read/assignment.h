// One `key = value` as the user wrote it, in a file or as a flag. The key may not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/read/problems.h"
#include "support/fields.h"

namespace rondo {

struct Assignment {
  std::string key;        // "training.steps"; in snake_case
  std::string place;      // "configs/x.toml:12:3" or "command line"
  std::string shown;      // as the user wrote it: "training.steps = 20" or "--training.steps=20"
  FieldValue value;       // from a file; std::monostate if no field has its type (see `kind`)
  std::string kind;       // "a date", "a table", ...; "" with a value
  bool of_lists = false;  // `value` was a list of lists, each joined to one text by +
  bool from_flag = false;
  std::string flag_text;           // from a flag: the text after "="
  bool flag_without_text = false;  // `--section.key` alone, and `--section.no-key`
  bool negated = false;            // the latter
};

// Parses a TOML text into assignments, in the order of the file. Reports only the first syntax
// error. `name` is the file name in places.
std::vector<Assignment> read_toml(std::string_view text, const std::string& name, Problems& problems);

// Reads and parses a file. Reports a file that cannot be read or is larger than 1 MiB. `place` is
// where the file is named.
std::vector<Assignment> read_toml_file(const std::string& path, const std::string& place, Problems& problems);

// Reads files in order; later assignments win. A file of configs/ that the current folder lacks is
// the one that the program ships. The files of `include = ["..."]` come before the
// file that includes them, with paths relative to its folder. Reports a file that includes itself.
struct ConfigFile {
  std::string path, place;
};
std::vector<Assignment> read_toml_files(const std::vector<ConfigFile>& files, Problems& problems);

// Parses the flags `--section.key=value`, `--section.key value`, `--section.key`,
// `--section.no-key` and `--no-section.key`. Dashes in names count as underscores. Any other word
// names a file, as --job.config_file does.
std::vector<Assignment> read_flags(const std::vector<std::string>& words, Problems& problems);

// Converts a value to the type of `field`. On failure returns std::monostate and sets `rule` to the
// broken rule. The flag text "None" unsets an optional field (in a file, leave the key out).
FieldValue read_value(const Assignment& assignment, const Field& field, std::string& rule);

}  // namespace rondo
