// Kills a run repeatedly at random moments, and resumes it each time.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>

#include "checkpoint/catalog.h"
#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {

class KilledRun {
 public:
  explicit KilledRun(unsigned seed, int ranks = 2, int interval = 3, Words more = {})
      : random_(seed), ranks_(ranks), interval_(interval), more_(std::move(more)) {}

  // Sends SIGKILL to a rank or the launcher after a random time.
  void kill_anywhere() {
    const Mark mark;
    launch::Launch launcher(words(1'000'000), {mark.setting()});
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + number(2000)));
    const int victim = number(ranks_ + 1);
    if (victim == ranks_) {
      launcher.signal(SIGKILL);
    } else {
      for (const int pid : mark.processes(fmt::format("RANK={}", victim))) kill(pid, SIGKILL);
    }
    launcher.wait(kPatience);
    check_what_is_left(mark);
  }

  // Kills a rank at a random file system call of a save.
  void kill_inside_a_save() {
    const Mark mark;
    const std::string at = std::to_string(1 + number(60)), rank = std::to_string(number(ranks_));
    INFO("rank " << rank << " dies at call " << at);
    launch::Launch launcher(words(1'000'000), failing(mark, rank, "kill", at));
    const launch::Finished end = launcher.wait(kPatience);
    INFO(end.out << end.err);
    CHECK(end.code == 137);
    check_what_is_left(mark);
  }

  // Runs to the end without kills, and compares with a run that was never killed.
  void check_bits() {
    const std::int64_t steps = newest() + 5;
    const ProgramResult last = run_program(Words{kRondo, "launch"} + words(steps), kRunTimeout_ms);
    INFO(last.output);
    REQUIRE(last.exit_code == 0);
    place_.play(ranks_, "straight", saving() + Words{fmt::format("--training.steps={}", steps)});
    const ProgramResult compared = place_.compare("run", "straight");
    INFO(compared.output);
    CHECK(compared.exit_code == 0);
    CHECK_THAT(compared.output,
               Catch::Matchers::ContainsSubstring(fmt::format("equal bit for bit on {} steps", steps)));
  }

 protected:
  static constexpr std::chrono::seconds kPatience{
      120};  // of a busy machine; far below comm.init_timeout_seconds
  using Variables = std::vector<std::pair<std::string, std::string>>;
  // Disturbs file system calls of one rank's saves (failing_files.cpp).
  Variables failing(const Mark& mark, const std::string& rank, const char* action,
                    const std::string& at) const {
    return {mark.setting(),
            {"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so"},
            {"FAILING_FILES_UNDER", folder_of_checkpoints()},
            {"FAILING_FILES_ACTION", action},
            {"FAILING_FILES_AT", at},
            {"FAILING_FILES_RANK", rank}};
  }
  Words saving() const {
    return Words{"--checkpoint.enable=true",           fmt::format("--checkpoint.interval={}", interval_),
                 "--checkpoint.async_mode=async",      "--checkpoint.keep_latest_k=3",
                 "--lr_scheduler.total_steps=1000000", "--validation.enable=false"} +
           more_;
  }
  Words words(std::int64_t steps) const {
    const Words all =
        place_.launch(ranks_, "run", saving() + Words{fmt::format("--training.steps={}", steps)});
    return {all.begin() + 1, all.end()};
  }
  std::string folder_of_checkpoints() const { return (place_ / "run/checkpoint").string(); }
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // Returns the step of the newest checkpoint that verifies completely; 0: there is none.
  std::int64_t newest() const {
    const auto selection = checkpoint::newest_valid(folder_of_checkpoints(), checkpoint::Depth::full);
    return selection.newest ? selection.newest->step : 0;
  }

  // Checks that no process is alive, and that no committed checkpoint is lost or damaged.
  void check_what_is_left(const Mark& mark) {
    CHECK(mark.all_gone());
    if (!std::filesystem::exists(folder_of_checkpoints())) return;
    for (const checkpoint::Entry& entry : checkpoint::list(folder_of_checkpoints())) {
      INFO(entry.folder.string() << ": " << entry.why);
      CHECK(entry.state != checkpoint::State::damaged);
    }
    const std::int64_t now = newest();
    CHECK(now >= newest_before_);
    newest_before_ = now;
  }

  Place place_;
  std::mt19937 random_;
  const int ranks_, interval_;
  const Words more_;  // flags
  std::int64_t newest_before_ = 0;
};

}  // namespace rondo
