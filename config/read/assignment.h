// One `key = value` that the user wrote, in a file or as a flag, before anyone asked whether the key exists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/read/problems.h"
#include "support/fields.h"

namespace rondo {

struct Assignment {
  std::string key;    // "training.steps"; in snake_case
  std::string place;  // "configs/x.toml:12:3" or "command line"
  std::string shown;  // as the user wrote it: "training.steps = 20" or "--training.steps=20"
  FieldValue value;   // from a file; std::monostate where it has a type that no field has (`kind` says which)
  std::string kind;   // "a date", "a table", ...; "" with a value
  bool of_lists = false;  // `value` was a list of lists of texts: each is one text, with + between
  bool from_flag = false;
  std::string flag_text;           // from a flag: the words after "=", to be read as the field's type
  bool flag_without_text = false;  // `--section.key` alone, and `--section.no-key`
  bool negated = false;            // the latter
};

// The assignments of a TOML text, in the order of the file. Reports what is not TOML (only the first error:
// the text cannot be understood beyond it). `name` is what places are called by.
std::vector<Assignment> read_toml(std::string_view text, const std::string& name, Problems& problems);

// Reads the file first. Reports a file that cannot be read or is larger than 1 MiB; `place` is what asked for
// it.
std::vector<Assignment> read_toml_file(const std::string& path, const std::string& place, Problems& problems);

// The files of `paths`, a later one winning, each behind the files of its `include = ["..."]`, whose paths
// are relative to its own folder. Reports a file that includes itself.
struct ConfigFile {
  std::string path, place;
};
std::vector<Assignment> read_toml_files(const std::vector<ConfigFile>& files, Problems& problems);

// Flags `--section.key=value`, `--section.key value`, `--section.key`, `--section.no-key` and
// `--no-section.key`; dashes in names count as underscores. A word that is none names a file, as
// --job.config_file does.
std::vector<Assignment> read_flags(const std::vector<std::string>& words, Problems& problems);

// The value as `field` wants it. On failure returns std::monostate and puts the broken rule into `rule`; an
// optional field is unset by the flag text "None" (in a file: leave the key out).
FieldValue read_value(const Assignment& assignment, const Field& field, std::string& rule);

}  // namespace rondo
