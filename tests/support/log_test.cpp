// Log lines while stderr, a pipe, is not read.
#include "support/log.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/printable.h"
#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// Replaces stderr of this process by a pipe of one page during its lifetime.
class PipedStderr {
 public:
  PipedStderr() : stderr_(dup(STDERR_FILENO)) {
    REQUIRE(pipe2(ends_, O_NONBLOCK | O_CLOEXEC) == 0);
    fcntl(ends_[1], F_SETFL, 0);  // writes would block, as for a rank
    fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~PipedStderr() {
    dup2(stderr_, STDERR_FILENO);
    for (const int fd : {stderr_, ends_[0], ends_[1]}) close(fd);
  }
  std::string read_some() const {
    std::string text(1 << 20, '\0');
    const ssize_t size = read(ends_[0], text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
  }

 private:
  const int stderr_;
  int ends_[2];
};

TEST_CASE("a line of the log has no control sequences but those of the program, and is bounded") {
  const PipedStderr piped;
  log_warning("path \x1b[2J\u202e");
  CHECK_THAT(piped.read_some(), ContainsSubstring("path \\x1b[2J\\xe2\\x80\\xae\n"));
  log_styled("\x1b[31mstep\x1b[39m");
  CHECK_THAT(piped.read_some(), ContainsSubstring("\x1b[31mstep\x1b[39m\n"));
  log_info(std::string(1 << 20, 'a'));
  log_info("behind it");
  std::string rest;
  for (std::string text; !(text = piped.read_some()).empty();) {
    rest += text;
    log_info("more");
    if (rest.find("more") != rest.npos) break;
  }
  CHECK(rest.size() < 100'000);
  CHECK_THAT(rest, ContainsSubstring("a...\n") && ContainsSubstring("behind it"));
}

TEST_CASE("unread log lines do not block: some are buffered, the others are dropped, counted and reported") {
  const PipedStderr piped;
  constexpr int kLines = 5000, kAfterwards = 100;
  for (int i = 0; i < kLines; ++i) log_info("line " + std::to_string(i) + std::string(60, '.'));
  std::string output = piped.read_some();
  for (int i = 0; i < kAfterwards; ++i) {
    log_info("line afterwards");
    output += piped.read_some();
  }
  CHECK_THAT(output, ContainsSubstring("line 0.") && !ContainsSubstring("line 4999.") &&
                         ContainsSubstring("line afterwards\n"));
  const std::size_t note = output.find(" lines of the log were dropped: stderr was not read\n");
  REQUIRE(note != std::string::npos);
  const int dropped = std::stoi(output.substr(output.rfind(' ', note - 1)));
  int shown = 0;
  for (std::size_t at = 0; (at = output.find("line ", at)) != std::string::npos; ++at) ++shown;
  CHECK(shown + dropped == kLines + kAfterwards);
}

TEST_CASE(
    "a kept log has the first lines of the process, no colours, and twice the bytes of a file at most") {
  const PipedStderr piped;
  const Scratch scratch;
  const std::string path = (scratch / "console.log").string();
  keep_log("");
  log_warning("before the file");
  REQUIRE(keep_log(path).empty());
  log_styled("\x1b[31mstep\x1b[39m");
  REQUIRE(lines_of(path).size() == 2);
  CHECK(lines_of(path)[1].ends_with(" step"));
  CHECK_THAT(text_of(path), ContainsSubstring(" warning: before the file\n"));
  const std::string long_line(kMaxMessageBytes - 4, 'a');
  std::size_t bytes = 0;
  for (; bytes <= 3 * kMaxLogFileBytes; bytes += long_line.size()) log_info(long_line);
  CHECK(std::filesystem::file_size(path) <= kMaxLogFileBytes);
  CHECK(std::filesystem::file_size(path + ".1") <= kMaxLogFileBytes);
  REQUIRE(keep_log(path).empty());  // as a resume does
  log_info("last");
  CHECK(lines_of(path).back().ends_with(" last"));
  CHECK(keep_log((scratch / "none/console.log").string()) == "No such file or directory");
  keep_log("");
}

TEST_CASE("a process that ends waits until its buffered lines are read, however it ends") {
  const bool destroys_static_objects = GENERATE(true, false);
  const PipedStderr piped;
  do log_info("before");  // what other cases left unread
  while (!piped.read_some().ends_with("before\n"));
  int logged[2];
  REQUIRE(pipe(logged) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 200; ++i) log_info(std::string(60, '.'));  // more than the pipe holds
    log_info("the last line");
    if (write(logged[1], "x", 1) != 1) _exit(1);
    destroys_static_objects ? std::exit(0) : std::quick_exit(0);
  }
  close(logged[1]);
  char ignored = 0;
  REQUIRE(read(logged[0], &ignored, 1) == 1);
  std::string output;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) output += piped.read_some();
  output += piped.read_some();
  close(logged[0]);
  CHECK(status == 0);
  CHECK_THAT(output, ContainsSubstring("the last line\n"));
}

}  // namespace
}  // namespace rondo
