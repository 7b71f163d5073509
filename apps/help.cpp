// `rondo help [SECTION | SECTION.KEY]`
#include "trainer/config/help.h"

#include <cstdio>

#include "apps/commands.h"
#include "support/error.h"

namespace rondo {

int run_help(const Arguments& args) {
  if (args.size() > 1) throw Error(ExitCode::usage, "rondo help takes one section or one section.key");
  const std::string topic = args.empty() || args[0] == "--help" ? "" : args[0];
  std::fputs(help_page(topic).c_str(), stdout);
  return 0;
}

}  // namespace rondo
