// The command line of a program or subcommand: what it takes is declared, then its words are read. The
// configuration's own flags, `--section.key=value`, are read in config/read.
//
//   Flags flags("plan", "What a job of N ranks will take.");
//   flags.positional("CONFIG", flag::text(&file), "a TOML file", Need::required);
//   flags.value("--world", "N", flag::whole(&world, 1, 1024), "ranks of the job", Need::required);
//   flags.toggle("--json", &json, "the same numbers for programs");
//   if (!flags.read(args)) return 0;
//
// A value is given as `--flag VALUE` or `--flag=VALUE`, after a short name also as `-fVALUE`. Long names may
// be spelt with dashes or underscores. Of two values the last counts. What is not given leaves its variable
// alone. After `--` no word is a flag. --help and -h are always known.
//
// Where a command takes keys of the configuration, --section.key=value, they are left to its reader
// (config/read), and so are words that are no flags: TOML files.
//
// Mistakes are reported together, in one Error(usage), with flag, value and rule, or with the nearest name:
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

// What a command declared: for its help, for completion and for the manual page.
struct CommandSpec {
  struct Row {
    std::vector<std::string> names;  // of a flag, the long one last; of a positional its name
    std::string shown = "";          // what stands for the value; "": it takes none
    std::string meaning;
    bool is_flag = false;
  };
  std::string command;  // the words after "rondo"
  std::string usage, about, notes = "";
  std::vector<Row> rows = {};  // as the help lists them
  bool takes_keys = false;
  bool is_choice = false;  // of subcommands, which are the rows
};

// While one lives, --help adds what it would print to `commands` instead. One at a time.
class HelpCollector {
 public:
  HelpCollector();
  ~HelpCollector();
  HelpCollector(const HelpCollector&) = delete;
  HelpCollector& operator=(const HelpCollector&) = delete;
  std::vector<CommandSpec> commands;
};
// Prints the help of a command, or hands it to the collector.
void show_help(const CommandSpec& spec);

class Flags {
 public:
  // `command`: the words after "rondo". The help is the usage, `about`, the table of flags, and `notes`.
  Flags(std::string command, std::string about, std::string notes = "");

  // `names`: "--tee", or "-t,--tee". `shown` stands for the value in the help.
  void value(const std::string& names, const std::string& shown, ReadValue read, const std::string& meaning,
             Need need = Need::optional);
  void toggle(const std::string& names, bool* on, const std::string& meaning);
  // Known, but not served: the message says why, the help leaves it out.
  void refuse(const std::string& names, const std::string& reason);

  // Words that are no flags, in this order. The last one takes all that are left if its name ends in "...".
  void positional(const std::string& name, ReadValue read, const std::string& meaning, Need need);
  // Flags end at `--` or at the first word that is none; that word and all after it are `program`.
  void program(std::vector<std::string>* program);

  // Takes keys of the configuration, and words that are no flags, in their order: `keys`. Flags without a dot
  // in their name are then the command's own; if it has none, they are left to `keys`, too. A positional only
  // stands in the help then; a required one says that `keys` must not be empty.
  void keys(std::vector<std::string>* keys) { keys_ = keys; }

  // What no word gives is taken from the variable PREFIX + NAME, as PET_NNODES; of a toggle it is 0 or 1.
  void environment(const std::string& prefix) { environment_prefix_ = prefix; }

  // Once. False: --help is among the words, and is printed to stdout. Throws Error(usage), and what a
  // ReadValue throws.
  bool read(const std::vector<std::string>& args);

  bool given(const std::string& name) const { return given_.contains(name); }
  // As the user wrote it: `--world "8"`, `-t "3"`, `PET_NNODES "2"`. REQUIRES: given.
  std::string as_given(const std::string& name) const;
  // Whether `word` spells a flag that is served, with or without a value.
  bool serves(std::string_view word) const;
  // Throws Error(usage) for mistakes that only the values together show.
  [[noreturn]] void fail(const std::vector<std::string>& problems) const;

 private:
  enum class Kind { value, toggle, refused };
  struct Flag {
    Kind kind;
    std::vector<std::string> names;  // the last one is the long one
    std::string shown;
    ReadValue read;
    std::string meaning;  // of a refused flag the reason
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
  // Reads the flags that are known; returns the other words.
  std::vector<std::string> read_flags(const std::vector<std::string>& args);
  // Of those the ones that are no flags.
  std::vector<std::string> refuse_unknown(const std::vector<std::string>& left);
  bool is_own(const std::string& word) const;  // of a command that takes keys
  void take(const Flag& flag, const std::string& as, const std::string& value);
  void read_environment();
  void read_positionals(const std::vector<std::string>& words);
  void require_flags();
  const Flag* find(const std::string& name) const;  // nullptr where there is none
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
