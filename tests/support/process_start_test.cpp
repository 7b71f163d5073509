#include "support/process_start.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <cstring>

#include "support/files/file.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

TEST_CASE("a write beyond the limit of file sizes is an error and does not kill the process") {
  const Scratch scratch;
  CHECK(in_child([&]() -> std::string {
          const rlimit small{8, 8};
          setrlimit(RLIMIT_FSIZE, &small);
          prepare_process();
          const int fd = open((scratch / "file").c_str(), O_CREAT | O_WRONLY, 0600);
          if (write(fd, "12345678", 8) != 8) return "not writable";
          return write(fd, "9", 1) < 0 ? std::strerror(errno) : "written";
        }) == "File too large");
}

TEST_CASE("the soft limit of open files is raised, and a hard limit that is too low is reported") {
  CHECK(in_child([]() -> std::string {
          const rlimit low{20, 100};
          setrlimit(RLIMIT_NOFILE, &low);
          prepare_process();
          require_descriptors(100);
          return error_of([] { require_descriptors(101); });
        }) == "9: the limit of open files (ulimit -n) is 100, and about 101 are needed; raise it");
}

TEST_CASE("closed standard streams are opened, no file gets their number, and lost output is an error") {
  const Scratch scratch;
  write_text(scratch / "f", "text");
  const std::string seen = in_child([&] {
    for (const int stream : {0, 1, 2}) close(stream);
    prepare_process();
    const bool behind = File::open(scratch / "f", FileUse::run).descriptor() > 2;
    const bool written = write(2, "x", 1) == 1;
    const bool reported = write(1, "x", 1) < 0 && errno == ENOSPC;
    return std::string(behind && written && reported ? "behind them" : "in their place");
  });
  CHECK(seen == "behind them");
}

}  // namespace
}  // namespace rondo
