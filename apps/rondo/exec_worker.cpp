#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "apps/commands.h"
#include "support/error.h"
#include "support/machine/core_room.h"
#include "support/process_start.h"

namespace rondo {

void exec_worker(const std::vector<std::string>& words) {
  // LibTorch takes one thread per core of the affinity, which a quota of the cgroup throttles.
  if (const CoreRoom room = core_room(); !room.quota.empty())
    setenv("OMP_NUM_THREADS", std::to_string(room.cores).c_str(), /*overwrite=*/0);
  std::fflush(nullptr);  // keeps this output before the worker's
  const std::filesystem::path worker = program_folder() / "rondo-worker";
  std::vector<char*> argv{const_cast<char*>(worker.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(worker.c_str(), argv.data());
  throw Error(ExitCode::environment,
              "cannot start " + worker.string() + ": " + std::strerror(errno) +
                  "; it belongs to the folder of rondo; " +
                  (is_installed() ? "unpack the archive again" : "run scripts/setup.sh and build again"));
}

}  // namespace rondo
