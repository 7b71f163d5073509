#include "support/error.h"

namespace rondo {

void assertion_failed(const char* expression, const char* file, int line, const std::string& what) {
  throw Error(ExitCode::internal, std::string("internal error: ") + what + " (" + expression +
                                      " is false at " + file + ":" + std::to_string(line) +
                                      "); please report this with the run folder");
}

}  // namespace rondo
