// The page that a launcher and a rank share: a child writes it, the test reads it.
#include "support/watch/progress.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <thread>

namespace rondo::progress {
namespace {

TEST_CASE("a page that no rank has joined is empty") {
  const Page page;
  CHECK_FALSE(page.seen());
}

TEST_CASE("the notes of a killed rank stay in the launcher's page") {
  const Page page;
  const pid_t child = fork();
  if (child == 0) {
    setenv("RONDO_PROGRESS_FD", std::to_string(page.fd()).c_str(), 1);
    join_launcher();
    at_step(7);
    saved(5);
    const Work training(Doing::training);
    running("aten.mm", "layers.0.attention.wq", Phase::backward);
    called(87, "all_reduce", "dp", 12, "layers.3");
    waits_for("all_gather", "tp", 30, "layers.2");
    const Reading reading(std::string(400, 'x') + "/shard.txt");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const std::optional<Seen> seen = page.seen();
  REQUIRE(seen);
  CHECK(seen->step == 7);
  CHECK(seen->saved == 5);
  CHECK(seen->calls == 88);
  CHECK(seen->waits);
  CHECK(seen->collective == "all_gather 30 of group tp");
  CHECK(seen->module == "layers.2");
  CHECK(seen->op == "aten.mm");
  CHECK(seen->phase == Phase::backward);
  CHECK(seen->file.size() == 255);
  CHECK(seen->file.ends_with("xx/shard.txt"));
  CHECK(where(*seen) == "in all_gather 30 of group tp for layers.2");
  CHECK(page.notes() == seen->notes);
}

TEST_CASE("a descriptor that is no page is not used, and notes stay in the process") {
  const pid_t child = fork();
  if (child == 0) {
    const int other = open("/dev/null", O_RDWR);
    setenv("RONDO_PROGRESS_FD", std::to_string(other).c_str(), 1);
    join_launcher();
    at_step(3);
    _exit(seen().step == 3 && fcntl(other, F_GETFD) >= 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("the longest of several current reads is reported") {
  const Work loading(Doing::loading);
  {
    const Reading first("a.txt");
    std::thread([] { const Reading second("b.txt"); }).join();
    std::thread([] {
      const Reading third("c.txt");
      CHECK(where(seen()) == "in a read of a.txt");
    }).join();
  }
  CHECK(where(seen()) == "waiting for a batch");
}

TEST_CASE("a rank cannot truncate the launcher's page") {
  const Page page;
  CHECK(ftruncate(page.fd(), 0) != 0);
}

}  // namespace
}  // namespace rondo::progress
