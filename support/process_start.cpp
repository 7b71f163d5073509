#include "support/process_start.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/error.h"

namespace rondo {
namespace {

void raise_descriptor_limit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  // on failure the soft limit stays; require_descriptors reports it if it is too low
  setrlimit(RLIMIT_NOFILE, &files);
}

// A closed standard output becomes /dev/full, so that lost results are reported.
void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= 2) {
    const bool is_output_next = fcntl(STDIN_FILENO, F_GETFD) != -1 && fcntl(STDOUT_FILENO, F_GETFD) == -1;
    fd = open(is_output_next ? "/dev/full" : "/dev/null", O_RDWR);
  }
  if (fd > 2) close(fd);
}

// LibTorch allocates tensors with malloc. Huge pages save nine of ten page faults, a fifth of the
// time from a start to its first step. A fixed threshold keeps blocks below it in the heap, where
// neighbours share a huge page.
constexpr const char* kMallocTunables = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432";

// libgomp's threads spin for milliseconds before they sleep. Where other work shares the cores,
// they hold the core that the thread they wait for needs: a step of the debug model then takes 2 to
// 5 times longer than with this count, about 30 us. On idle cores the count makes no difference.
constexpr const char* kSpins = "2000";

}  // namespace

void prepare_process() {
  setenv("GLIBC_TUNABLES", kMallocTunables, /*overwrite=*/0);
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0);
  open_standard_streams();
  signal(SIGXFSZ, SIG_IGN);
  raise_descriptor_limit();
}

std::filesystem::path program_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

bool is_installed() {
  std::error_code ignored;
  return std::filesystem::exists(program_folder().parent_path() / "share/rondo/configs", ignored);
}

std::filesystem::path shared_folder() {
  const std::filesystem::path above = program_folder().parent_path();
  if (is_installed()) return above / "share/rondo";
  std::error_code ignored;
  return std::filesystem::exists(above.parent_path() / "configs", ignored) ? above.parent_path() : "";
}

std::string here_or_shipped(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  const std::filesystem::path shipped = shared_folder() / path;
  return std::filesystem::exists(shipped, ignored) ? shipped.string() : path;
}

void require_descriptors(int needed) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= static_cast<rlim_t>(needed)) return;
  throw Error(ExitCode::resources, "the limit of open files (ulimit -n) is " +
                                       std::to_string(files.rlim_cur) + ", and about " +
                                       std::to_string(needed) + " are needed; raise it");
}

}  // namespace rondo
