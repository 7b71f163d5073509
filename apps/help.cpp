// `rondo help [SECTION | SECTION.KEY]`, and the manual page.
#include "config/help.h"

#include <cstdio>

#include "apps/commands.h"
#include "support/flags/flags.h"

namespace rondo {

int run_help(const Arguments& args) {
  std::string topic;
  bool manual = false;
  Flags flags("help", "Prints the sections and keys of the configuration, or the manual page.");
  flags.positional("TOPIC", flag::text(&topic), "a section, or section.key; none: all sections",
                   Need::optional);
  flags.toggle("--man", &manual, "the manual page of rondo: `rondo help --man | man -l -`");
  if (flags.read(args)) std::fputs((manual ? manual_page(all_commands()) : help_page(topic)).c_str(), stdout);
  return 0;
}

}  // namespace rondo
