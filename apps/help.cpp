// `rondo help [SECTION | SECTION.KEY]`
#include "trainer/config/help.h"

#include <cstdio>

#include "apps/commands.h"
#include "support/flags/flags.h"

namespace rondo {

int run_help(const Arguments& args) {
  std::string topic;
  Flags flags("help", "Sections and keys of the configuration.");
  flags.positional("TOPIC", flag::text(&topic), "a section, or section.key; none: all sections",
                   Need::optional);
  if (flags.read(args)) std::fputs(help_page(topic).c_str(), stdout);
  return 0;
}

}  // namespace rondo
