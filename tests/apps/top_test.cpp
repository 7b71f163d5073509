// `rondo top` on a pseudoterminal, with a made-up run that does not end.
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/runs/made_up_runs.h"

namespace rondo {

TEST_CASE("the key q ends top, without Enter") {
  const Scratch scratch;
  write_run(scratch / "run", steps(1, 3));
  const std::string program = RONDO_BINARY_DIR "/rondo", folder = (scratch / "run").string();
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(pid >= 0);
  if (pid == 0) {
    execl(program.c_str(), program.c_str(), "top", folder.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  std::string shown;
  bool has_typed = false;
  std::array<char, 4096> chunk;
  pollfd output{.fd = terminal, .events = POLLIN, .revents = 0};
  // The end of the program ends its terminal.
  while (poll(&output, 1, 60'000) > 0) {
    const ssize_t count = read(terminal, chunk.data(), chunk.size());
    if (count <= 0) break;
    shown.append(chunk.data(), static_cast<std::size_t>(count));
    if (has_typed || shown.find("loss 7.70000") == shown.npos) continue;
    CHECK(write(terminal, "xq", 2) == 2);
    has_typed = true;
  }
  close(terminal);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(has_typed);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace rondo
