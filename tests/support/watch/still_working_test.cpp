#include "support/watch/still_working.h"

#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>

namespace rondo {
namespace {

// Returns what `run` writes to stderr, which is a pipe.
template <class Run>
std::string stderr_of(const Run& run) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  run(ends[0]);
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(read(ends[0], text.data(), text.size())));
  close(ends[0]);
  return text;
}

}  // namespace

TEST_CASE("long work says so without a terminal, but for output that a program reads") {
  const std::string text = stderr_of([](int pipe) {
    const StillWorking for_program("no word", /*json=*/true);
    const StillWorking working("planning", /*json=*/false);
    char first = 0;
    CHECK(read(pipe, &first, 1) == 1);  // waits for the line
    CHECK(first == 'p');
  });
  CHECK(text == "lanning, 2 s\n");
}

TEST_CASE("short work says nothing") {
  CHECK(stderr_of([](int) { const StillWorking working("planning", /*json=*/false); }).empty());
}

}  // namespace rondo
