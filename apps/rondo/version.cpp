// `rondo version`, and `rondo --version`
#include "support/version.h"

#include <cstdio>
#include <string>

#include "apps/commands.h"
#include "support/flags/flags.h"

namespace rondo {

int run_version(const Arguments& args) {
  Flags flags("version", "Prints the version, commit and build type of this program.");
  if (!flags.read(args)) return 0;
  const std::string known = commit();
  std::printf("rondo %s (%s; %s)\n", version(),
              known.empty() ? "unknown commit" : ("commit " + known).c_str(), build_type());
  return 0;
}

}  // namespace rondo
