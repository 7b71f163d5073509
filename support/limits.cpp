#include "support/limits.h"

#include <signal.h>
#include <sys/resource.h>

#include <string>

#include "support/error.h"

namespace rondo {

void prepare_limits() {
  signal(SIGXFSZ, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // refused: the soft limit stays, and is told where it is too low
}

void require_descriptors(int needed) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= static_cast<rlim_t>(needed)) return;
  throw Error(ExitCode::resources, "the limit of open files (ulimit -n) is " +
                                       std::to_string(files.rlim_cur) + ", and about " +
                                       std::to_string(needed) + " are needed; raise it");
}

}  // namespace rondo
