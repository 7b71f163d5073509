// Tests runs in which a call never returns: they end with 7 and name the place and the rank that
// blocked them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/held_port.h"
#include "tests/run/processes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;

const Words kUntilTold = {"--training.steps=1000000", "--validation.enable=false",
                          "--comm.train_timeout_seconds=2"};

// Runs with a read of the corpus that never returns, on `rank` alone, about a dozen steps after
// the start.
std::vector<std::pair<std::string, std::string>> hanging_read(const Place& place, const std::string& rank) {
  return {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libfailing_files.so"},
          {"FAILING_FILES_UNDER", (place / "corpus").string()},
          {"FAILING_FILES_CALLS", "pread"},
          {"FAILING_FILES_ACTION", "hang"},
          {"FAILING_FILES_AT", "200"},
          {"FAILING_FILES_RANK", rank},
          {"OMP_NUM_THREADS", "1"}};
}

TEST_CASE("a run of one rank whose data read hangs ends with 7 and names the file") {
  const Place place;
  Launch launcher(without_launch(place.launch(1, "run", kUntilTold)), hanging_read(place, "0"));
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 7);
  const nlohmann::json record = place.exit_record("run");
  INFO(record);
  CHECK(record["exit_code"] == 7);
  const std::string reason = record["reason"];
  CHECK_THAT(reason, ContainsSubstring(" has made no progress for ") &&
                         ContainsSubstring(" s, in a read of " + (place / "corpus").string() + "/"));
  CHECK_THAT(reason, ContainsSubstring("comm.train_timeout_seconds"));
}

// A run of three ranks, the second of which is stopped during step 4 or later.
struct StoppedRun {
  explicit StoppedRun(const Words& flags)
      : launcher(without_launch(place.launch(3, "run", kUntilTold + flags)), {mark.setting()}) {
    REQUIRE(holds_soon([&] { return lines_of(place / "run/metrics.jsonl").size() >= 3; }));
    const std::vector<int> rank = mark.processes("RANK=1");
    REQUIRE(rank.size() == 1);
    kill(rank[0], SIGSTOP);
  }
  Place place;
  Mark mark;
  Launch launcher;
};

TEST_CASE("a rank without progress is named by the launcher, in exit.json and in events.jsonl") {
  StoppedRun run({});
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 7);
  CHECK(run.mark.all_gone());
  CHECK_THAT(end.err, ContainsSubstring("has made no progress for "));
  CHECK_THAT(end.err, ContainsSubstring("rank 1 blocks the others: it has made no progress for "));
  const nlohmann::json record = run.place.exit_record("run");
  INFO(record);
  CHECK(record["exit_code"] == 7);
  CHECK(record["culprit"]["rank"] == 1);
  CHECK(record["culprit"]["step"].get<int>() >= 3);
  CHECK_THAT(record["culprit"]["text"].get<std::string>(), ContainsSubstring("rank 1 blocks the others"));
  const nlohmann::json event = nlohmann::json::parse(lines_of(run.place / "run/events.jsonl").back());
  CHECK(event["event"] == "held_up");
  CHECK(event["culprit"]["rank"] == 1);
}

TEST_CASE("a rank of a pipeline without progress is named, with what its neighbours wait for") {
  StoppedRun run({"--parallelism.pipeline_parallel_degree=3", "--model.n_layers=3"});
  const launch::Finished end = run.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 7);
  CHECK(run.mark.all_gone());
  CHECK_THAT(end.err, ContainsSubstring("rank 1 blocks the others: it has made no progress for "));
  const bool by_the_next = end.err.find(" of group pp_1_to_2 for pipeline.2RECV_F") != std::string::npos,
             by_the_one_before =
                 end.err.find(" of group pp_1_to_0 for pipeline.0RECV_B") != std::string::npos;
  const bool by_all =
      end.err.find(" of group pp") != std::string::npos;  // it may have stopped between two steps
  CHECK((by_the_next || by_the_one_before || by_all));
  CHECK(run.place.exit_record("run")["culprit"]["rank"] == 1);
}

TEST_CASE("a rank without progress on another node is named") {
  const Place place;
  const Mark mark;
  const std::string port = std::to_string(HeldPort().number());
  const Words words = Words{"--nnodes=2", "--nproc-per-node=1", "--rdzv-endpoint=127.0.0.1:" + port, "--"} +
                      place.train("run", kUntilTold);
  Launch first(words, {mark.setting()}), second(words, {mark.setting()});
  REQUIRE(holds_soon([&] { return lines_of(place / "run/metrics.jsonl").size() >= 3; }));
  const std::vector<int> rank = mark.processes("RANK=1");
  REQUIRE(rank.size() == 1);
  kill(rank[0], SIGSTOP);
  const launch::Finished end = first.wait(), other = second.wait();
  INFO(end.err << other.err);
  CHECK(end.code == 7);
  CHECK(other.code == 7);
  for (const std::string& said : {end.err, other.err})
    CHECK_THAT(said, ContainsSubstring("rank 1 blocks the others: ") &&
                         ContainsSubstring(", stopped by a signal, "));
}

TEST_CASE("a rank whose data read hangs is named, although others time out first") {
  const Place place;
  Launch launcher(without_launch(place.launch(2, "run", kUntilTold)), hanging_read(place, "1"));
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 7);
  CHECK_THAT(end.err, ContainsSubstring("rank 1 blocks the others: ") &&
                          ContainsSubstring(", in a read of " + (place / "corpus").string() + "/"));
}

TEST_CASE("a rank that ends with 0 in the middle of a run is named by the launcher") {
  const Place place;
  std::vector<std::pair<std::string, std::string>> ending = hanging_read(place, "1");
  ending[3].second = "exit";
  Launch launcher(without_launch(place.launch(2, "run", kUntilTold)), ending);
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 7);
  CHECK_THAT(end.err, ContainsSubstring("rank 1 blocks the others: ") &&
                          ContainsSubstring(", ended with exit code 0, "));
  CHECK(place.exit_record("run")["culprit"]["rank"] == 1);
}

TEST_CASE("a rank that dies twice in one step without a new checkpoint is not started a third time") {
  const Place place;
  std::vector<std::pair<std::string, std::string>> dying = hanging_read(place, "1");
  dying[3].second = "kill";
  const Words words = place.launch(2, "run", kUntilTold + Words{"--training.num_prefetch_batches=0"});
  Launch launcher(Words{"--max-restarts=10"} + without_launch(words), dying);
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 93);
  CHECK_THAT(end.err, ContainsSubstring("restarting all ranks: restart 1 of 10") &&
                          !ContainsSubstring("restart 2 of 10"));
  CHECK_THAT(end.err, ContainsSubstring("not restarted: it failed twice in step "));
  const nlohmann::json record = place.exit_record("run");
  INFO(record);
  CHECK(record["exit_code"] == 93);
  CHECK_THAT(record["reason"].get<std::string>(), ContainsSubstring("it failed twice in step "));
}

TEST_CASE("a run whose output nobody reads trains to its end") {
  const Place place;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  Words words = Words{kRondo} + place.train("run", {"--training.steps=100", "--metrics.log_freq=1",
                                                    "--validation.enable=false"});
  const pid_t child = fork();
  if (child == 0) {
    setenv("OMP_NUM_THREADS", "1", 1);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = -1;
  const bool ended = holds_soon([&] { return waitpid(child, &status, WNOHANG) == child; });
  if (!ended) kill(child, SIGKILL);
  for (const int fd : ends) close(fd);
  REQUIRE(ended);
  CHECK(status == 0);
  CHECK(place.metrics("run").size() == 100);
}

}  // namespace
}  // namespace rondo
