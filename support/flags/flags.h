// The command line of a program or subcommand: declares its flags, then reads the words.
// config/read reads the flags of the configuration, `--section.key=value`.
//
//   Flags flags("plan", "Estimates a job of N ranks.");
//   flags.positional("CONFIG", flag::text(&file), "a TOML file", Need::required);
//   flags.value("--world", "N", flag::whole(&world, 1, 1024), "ranks of the job", Need::required);
//   flags.toggle("--json", &json, "print JSON");
//   if (!flags.read(args)) return 0;
//
// A value is given as `--flag VALUE` or `--flag=VALUE`, after a short name also as `-fVALUE`. Long
// names may use dashes or underscores. The last of several values counts. A flag that is not given
// leaves its variable unchanged. After `--` no word is a flag. --help and -h are always known.
//
// A command that takes keys of the configuration, --section.key=value, leaves them and all other
// words that are not flags (TOML files) to their reader in config/read.
//
// All mistakes are reported in one Error(usage), with flag, value and rule, or with the nearest
// name:
//   plan: --world "0" must be a whole number from 1 to 1024; `rondo plan --help` lists the flags
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/flags/flag_values.h"

namespace rondo {

enum class Need { optional, required };

// The declaration of a command, for its help, completion and the manual page.
struct CommandSpec {
  struct Row {
    std::vector<std::string> names;  // of a flag, the long one last; or of a positional
    std::string shown = "";          // placeholder of the value; "": no value
    std::string meaning;
    bool is_flag = false;
  };
  std::string command;  // the words after "rondo"
  std::string usage, about, notes = "";
  std::vector<Row> rows = {};  // in the order of the help
  bool takes_keys = false;
  bool is_choice = false;  // a choice of subcommands, which are the rows
};

// Collects help pages: during its lifetime, --help appends to `commands` instead of printing. At
// most one exists at a time.
class HelpCollector {
 public:
  HelpCollector();
  ~HelpCollector();
  HelpCollector(const HelpCollector&) = delete;
  HelpCollector& operator=(const HelpCollector&) = delete;
  std::vector<CommandSpec> commands;
};
// Prints the help of a command, or passes it to the collector.
void show_help(const CommandSpec& spec);

class Flags {
 public:
  // `command`: the words after "rondo". The help is the usage, `about`, the table of flags, and
  // `notes`.
  Flags(std::string command, std::string about, std::string notes = "");

  // `names`: "--tee", or "-t,--tee". `shown`: placeholder of the value in the help.
  void value(const std::string& names, const std::string& shown, ReadValue read, const std::string& meaning,
             Need need = Need::optional);
  void toggle(const std::string& names, bool* on, const std::string& meaning);
  // Declares a known flag that is refused with `reason`. The help omits it.
  void refuse(const std::string& names, const std::string& reason);

  // Declares a positional; positionals are read in order. If the name of the last one ends in
  // "...", it takes all remaining words.
  void positional(const std::string& name, ReadValue read, const std::string& meaning, Need need);
  // Ends the flags at `--` or at the first word that is not a flag. That word and all after it go
  // to `program`.
  void program(std::vector<std::string>* program);

  // Passes keys of the configuration, and words that are not flags, to `keys` in order. Flags
  // without a dot in their name then belong to the command, or also go to `keys` if the command has
  // none. A positional then only appears in the help; a required one demands that `keys` is not
  // empty.
  void keys(std::vector<std::string>* keys) { keys_ = keys; }

  // Reads flags that are not given from the variable PREFIX + NAME, such as PET_NNODES. A toggle is
  // 0 or 1.
  void environment(const std::string& prefix) { environment_prefix_ = prefix; }

  // Reads the words. Call it once. Returns false after printing --help to stdout. Throws
  // Error(usage), and as a ReadValue throws.
  bool read(const std::vector<std::string>& args);

  bool given(const std::string& name) const { return given_.contains(name); }
  // Returns the flag as the user wrote it: `--world "8"`, `-t "3"`, `PET_NNODES "2"`. REQUIRES:
  // given.
  std::string as_given(const std::string& name) const;
  // Returns whether `word` is a supported flag, with or without a value.
  bool serves(std::string_view word) const;
  // Throws Error(usage) for mistakes between values.
  [[noreturn]] void fail(const std::vector<std::string>& problems) const;

 private:
  enum class Kind { value, toggle, refused };
  struct Flag {
    Kind kind;
    std::vector<std::string> names;  // the long one last
    std::string shown;
    ReadValue read;
    std::string meaning;  // for a refused flag, the reason
    Need need;
  };
  struct Positional {
    std::string name;
    ReadValue read;
    std::string meaning;
    Need need;
  };
  struct Given {
    std::string as, value;
  };

  std::string usage() const;
  CommandSpec spec() const;
  // Reads the known flags and returns the other words.
  std::vector<std::string> read_flags(const std::vector<std::string>& args);
  // Reports unknown flags in `left` and returns the other words.
  std::vector<std::string> refuse_unknown(const std::vector<std::string>& left);
  bool is_own(const std::string& word) const;  // for a command that takes keys
  void take(const Flag& flag, const std::string& as, const std::string& value);
  void read_environment();
  void read_positionals(const std::vector<std::string>& words);
  void require_flags();
  const Flag* find(const std::string& name) const;  // nullptr if there is none
  std::vector<std::string> served_names() const;

  const std::string command_, about_, notes_;
  std::vector<Flag> flags_;
  std::vector<Positional> positionals_;
  std::vector<std::string>* program_ = nullptr;
  std::vector<std::string>* keys_ = nullptr;
  std::string environment_prefix_;
  std::map<std::string, Given> given_;  // by long name
  std::vector<std::string> problems_;
};

}  // namespace rondo
