// `rondo help [SECTION | SECTION.KEY | WORD]`, and the manual page.
#include "config/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "support/flags/flags.h"
#include "support/flags/terminal.h"

namespace rondo {
namespace {

// Returns the text up to its first full stop, as one line.
std::string first_sentence(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, text.find(". "));
}

// Returns the commands and flags that mention the word.
std::string commands_about(const std::string& word) {
  std::string out;
  for (const CommandSpec& command : all_commands()) {
    if (command.is_choice) continue;
    if (mentions(command.command, word) || mentions(command.about, word))
      out += fmt::format("  rondo {:<38} {}\n", command.command, first_sentence(command.about));
    for (const CommandSpec::Row& row : command.rows)
      if (row.is_flag && (mentions(row.names.back(), word) || mentions(row.meaning, word)))
        out += fmt::format("  rondo {:<38} {}\n", command.command + " " + row.names.back(), row.meaning);
  }
  return out.empty() ? "" : fmt::format("Commands that mention \"{}\":\n{}", word, out);
}

std::string page_of(const std::string& topic) {
  if (has_help_page(topic) || topic.find('.') != topic.npos) return help_page(topic);
  const std::string keys = search_help(topic), commands = commands_about(topic);
  if (keys.empty() && commands.empty()) return help_page(topic);  // throws, with the nearest key
  return keys + (keys.empty() || commands.empty() ? "" : "\n") + commands;
}

}  // namespace

int run_help(const Arguments& args) {
  std::string topic;
  bool manual = false;
  Flags flags(
      "help",
      "Prints the sections and keys of the configuration, what is known of a word, or the manual page.");
  flags.positional("TOPIC", flag::text(&topic),
                   "a section, section.key, or a word to search for; none: all sections", Need::optional);
  flags.toggle("--man", &manual, "the manual page of rondo: `rondo help --man | man -l -`");
  if (flags.read(args)) {
    if (manual)
      std::fputs(manual_page(all_commands()).c_str(), stdout);
    else
      print_page(page_of(topic));
  }
  return 0;
}

}  // namespace rondo
