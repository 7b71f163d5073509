// Every way in which a recorded run can end: what is left, in which order it is freed, and what the
// user sees.
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

#include "tests/run/held_port.h"
#include "tests/run/processes.h"
#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using launch::holds_soon;
using launch::Launch;

// A run of some ranks under the launcher that would not end by itself.
struct EndlessRun {
  explicit EndlessRun(int ranks) : launcher(words(ranks), environment()) {}

  bool launches_recordings(int rank) const {
    return holds_soon([&] { return run.journal(rank).of("launch").size() > 3; });
  }

  StandInRun run;
  Mark mark;
  Launch launcher;

 private:
  Words words(int ranks) const {
    const Words train = run.words(1, kLlama, {"--training.steps=1000000"});
    return Words{"--nproc-per-node", std::to_string(ranks), "--"} + Words(train.begin() + 1, train.end());
  }
  std::vector<std::pair<std::string, std::string>> environment() const {
    std::vector<std::pair<std::string, std::string>> all = {mark.setting()};
    for (const std::string& setting : stand_in_settings(run.journals())) {
      const std::size_t at = setting.find('=');
      all.emplace_back(setting.substr(0, at), setting.substr(at + 1));
    }
    return all;
  }
};

// Checks what must be freed whenever a rank ends by itself.
void check_nothing_is_left(const JournalFile& journal) {
  CHECK(journal.of("misused") == std::vector<std::string>{});
  for (const char* kind : {"recordings", "graphs", "pinned_blocks"})
    CHECK(journal.alive(kind) <= 0);  // -1: the run did not create any
  CHECK(journal.last_place("exit") >= 0);
}

ProgramResult failing(const StandInRun& run, const std::string& fault) {
  return run.run(1, kLlama, steps(6), {"RONDO_STAND_IN_FAIL=" + fault});
}

}  // namespace

TEST_CASE(
    "a signal ends a recorded run like any other: the step ends, and recordings are freed before their "
    "memory") {
  EndlessRun endless(1);
  REQUIRE(endless.launches_recordings(0));
  endless.launcher.signal(SIGTERM);
  const launch::Finished end = endless.launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 143);
  CHECK(endless.mark.all_gone());
  CHECK(problems(endless.run.journal()) == std::vector<std::string>{});
}

TEST_CASE("a replayed run frees all blocks of the GPU except the handle of cuBLAS") {
  const StandInRun run;
  // Without its cache LibTorch calls the driver for each tensor; so no run is recorded.
  const ProgramResult ended =
      run.run(1, kLlama, steps(4) + Words{"--compile.passes=default"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"});
  INFO(ended.output);
  CHECK(ended.exit_code == 0);
  CHECK(run.journal().alive("device_bytes") == 4 << 20);
}

TEST_CASE("a rank that loses another rank destroys its recordings and aborts its communicators") {
  EndlessRun endless(2);
  REQUIRE((endless.launches_recordings(0) && endless.launches_recordings(1)));
  for (const int pid : endless.mark.processes("RANK=1")) kill(pid, SIGKILL);
  const launch::Finished end = endless.launcher.wait(std::chrono::seconds(60));
  INFO(end.out << end.err);
  CHECK(end.code == 137);
  CHECK(endless.mark.all_gone());
  const JournalFile journal = endless.run.journal(0);
  check_nothing_is_left(journal);
  CHECK(journal.alive("communicators") == 0);
}

TEST_CASE(
    "a rank that loses another rank while it records collectives ends with 7 and does not hang in a "
    "communicator") {
  const StandInRun run;
  const std::string port = std::to_string(HeldPort().number());
  const auto play = [&](const std::string& rank) {
    const Words settings = {"RANK=" + rank,
                            "LOCAL_RANK=" + rank,
                            "WORLD_SIZE=2",
                            "LOCAL_WORLD_SIZE=2",
                            "MASTER_ADDR=127.0.0.1",
                            "MASTER_PORT=" + port,
                            "RONDO_STAND_IN_BUG=die:5",
                            "RONDO_STAND_IN_RANK=1"};
    return run.run(1, kLlama, {"--training.steps=1000000"}, settings);
  };
  auto second = std::async(std::launch::async, play, "1");
  const ProgramResult first = play("0");
  INFO(first.output);
  CHECK(second.get().exit_code == 137);
  CHECK(first.exit_code == 7);
  CHECK_THAT(first.output, ContainsSubstring("lost contact with another rank after step "));
  const JournalFile journal = run.journal(0);
  check_nothing_is_left(journal);
  CHECK(journal.of("communicator_aborted").size() == 1);
  // NCCL frees a communicator once no recording has a collective of it.
  CHECK(journal.last_place("destroy ") < journal.last_place("communicator_aborted "));
}

TEST_CASE("a failed GPU of one of two ranks is reported by that rank, not by a signal of LibTorch's") {
  const StandInRun run;
  const ProgramResult ended = run.run(
      2, kLlama, steps(6), {"RONDO_STAND_IN_FAIL=cudaStreamWaitEvent:10:719", "RONDO_STAND_IN_RANK=1"});
  INFO(ended.output);
  CHECK(ended.exit_code == 1);
  CHECK_THAT(ended.output, ContainsSubstring("CUDA error: unspecified launch failure"));
  CHECK_THAT(ended.output, !ContainsSubstring("crashed: SIGABRT"));
}

TEST_CASE("ranks that each see their own GPU train, and ranks that see the same GPU are refused") {
  const StandInRun bound, shared;
  const ProgramResult trained =
      bound.run(2, kLlama, steps(3), {"RONDO_STAND_IN_GPUS=1", "RONDO_STAND_IN_BOUND=1"});
  INFO(trained.output);
  CHECK(trained.exit_code == 0);
  const ProgramResult refused = shared.run(2, kLlama, steps(3), {"RONDO_STAND_IN_GPUS=1"});
  INFO(refused.output);
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.output, ContainsSubstring("ranks 0 and 1 have taken the same GPU"));
  CHECK_THAT(refused.output, ContainsSubstring("only the first MIG device of a list"));
}

TEST_CASE("settings that break groups, recordings or the allocator are refused at the start") {
  struct Case {
    const char *setting, *text;
    int ranks = 2;
  };
  for (const Case& each :
       {Case{"TORCH_NCCL_BLOCKING_WAIT=1",
             "TORCH_NCCL_BLOCKING_WAIT=1 does not go with recorded collectives"},
        Case{"NCCL_BLOCKING_WAIT=1", "NCCL_BLOCKING_WAIT=1 does not go with recorded collectives"},
        Case{"NCCL_COMM_ID=10.0.0.1:4000", "NCCL_COMM_ID=10.0.0.1:4000 does not go with more than one group"},
        Case{"NCCL_ASYNC_ERROR_HANDLING=yes",
             "Invalid value for environment variable: NCCL_ASYNC_ERROR_HANDLING"},
        Case{"PYTORCH_CUDA_ALLOC_CONF=no_such_key:1",
             "PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF): Unrecognized key 'no_such_key'", 1},
        Case{"NCCL_GRAPH_REGISTER=1", "NCCL_GRAPH_REGISTER=1 does not go with recorded collectives"},
        Case{"PYTORCH_ALLOC_CONF=expandable_segments: True",
             "expandable_segments:True (PYTORCH_ALLOC_CONF) does not go with recorded collectives"},
        Case{"PYTORCH_ALLOC_CONF=backend:cudaMallocAsync",
             "PYTORCH_ALLOC_CONF selects the allocator \"cudaMallocAsync\"", 1}})
    DYNAMIC_SECTION(each.setting) {
      const StandInRun run;
      const ProgramResult refused = run.run(each.ranks, kLlama, steps(3), {each.setting});
      INFO(refused.output);
      CHECK(refused.exit_code == 6);
      CHECK_THAT(refused.output, ContainsSubstring(each.text));
    }
}

TEST_CASE("a setting that is empty is not set") {
  const StandInRun run;
  const ProgramResult trained =
      run.run(2, kLlama, steps(3), {"NCCL_GRAPH_REGISTER=", "NCCL_GRAPH_MIXING_SUPPORT="});
  INFO(trained.output);
  CHECK(trained.exit_code == 0);
  CHECK_THAT(trained.output,
             ContainsSubstring("recorded collectives: NCCL_GRAPH_REGISTER=0, NCCL_GRAPH_MIXING_SUPPORT=0, "));
}

TEST_CASE("a recording that never ends ends the run with 7 and is named") {
  const StandInRun run;
  const ProgramResult ended =
      run.run(1, kLlama, steps(100) + Words{"--comm.train_timeout_seconds=2"}, {"RONDO_STAND_IN_BUG=hang:5"});
  INFO(ended.output);
  CHECK(ended.exit_code == 7);
  CHECK_THAT(ended.output, ContainsSubstring("step 6 has made no progress for ") &&
                               ContainsSubstring("segment 1 of 1 of train_step"));
}

TEST_CASE("a rank whose recording fails ends the other ranks") {
  const StandInRun run;
  const ProgramResult ended =
      run.run(2, kLlama, steps(6), {"RONDO_STAND_IN_BUG=synchronize:250", "RONDO_STAND_IN_RANK=1"});
  INFO(ended.output);
  CHECK(ended.exit_code == 10);
  CHECK_THAT(ended.output, ContainsSubstring("rank 1 (local rank 1"));
  for (int rank = 0; rank < 2; ++rank) {
    check_nothing_is_left(run.journal(rank));
    CHECK(run.journal(rank).alive("communicators") == 0);
  }
}

TEST_CASE("an op that waits for the device in a recording is named, and the run ends with 10") {
  const StandInRun run;
  const ProgramResult ended = run.run(1, kLlama, steps(6), {"RONDO_STAND_IN_BUG=synchronize:272"});
  INFO(ended.output);
  CHECK(ended.exit_code == 10);
  CHECK_THAT(ended.output, ContainsSubstring("segment 1 of 1 of train_step cannot be recorded: at aten."));
  CHECK_THAT(ended.output, ContainsSubstring("operation not permitted when stream is capturing"));
  CHECK_THAT(ended.output, ContainsSubstring("likely cause: it waits for the device"));
  check_nothing_is_left(run.journal());
}

TEST_CASE("a GPU without memory ends a run with 9, whoever allocates") {
  // Among the 38 allocations of a run: state, the arena, cuBLAS's handle and workspace,
  // temporaries.
  for (const char* fault : {"cudaMalloc:1:2", "cudaMalloc:20:2", "cudaMalloc:32:2", "cudaMalloc:33:2",
                            "cudaMalloc:34:2", "cudaMalloc:37:2", "cudaHostAlloc:1:2"})
    DYNAMIC_SECTION(fault) {
      const StandInRun run;
      const ProgramResult ended = failing(run, fault);
      INFO(ended.output);
      CHECK(ended.exit_code == 9);
      CHECK_THAT(ended.output, ContainsSubstring("the GPU is out of memory: CUDA"));
      CHECK_THAT(ended.output, !ContainsSubstring("expandable_segments"));
      check_nothing_is_left(run.journal());
    }
}

TEST_CASE("a recording that cannot begin or cannot be instantiated ends the run with 10") {
  // The last allocation of a run is that of the random generator, for its first recording.
  for (const char* fault :
       {"cudaMalloc:38:2", "cudaStreamBeginCapture:1:2", "cudaGraphInstantiateWithFlags:1:2"})
    DYNAMIC_SECTION(fault) {
      const StandInRun run;
      const ProgramResult ended = failing(run, fault);
      INFO(ended.output);
      CHECK(ended.exit_code == 10);
      CHECK_THAT(ended.output, ContainsSubstring("segment 1 of 1 of train_step cannot be recorded"));
      CHECK_THAT(ended.output, ContainsSubstring("out of memory"));
      check_nothing_is_left(run.journal());
    }
}

TEST_CASE("a GPU that fails ends the run with an error and no signal, wherever it is detected") {
  struct Case {
    const char* fault;
    int code;
  };
  for (const Case& each : {Case{"cudaGraphLaunch:3:719", 1},
                           {"cudaGraphLaunch:1:214", 9},
                           {"cudaStreamSynchronize:1:719", 1},
                           {"cudaMemcpyAsync:3:719", 1},
                           {"cudaEventRecord:4:719", 1},
                           {"cudaLaunchKernel:600:719", 10},
                           {"cudaStreamEndCapture:1:719", 10},
                           {"cudaGraphExecDestroy:1:719", 0}})
    DYNAMIC_SECTION(each.fault) {
      const StandInRun run;
      const ProgramResult ended = failing(run, each.fault);
      INFO(ended.output);
      CHECK(ended.exit_code == each.code);
      CHECK(run.journal().last_place("exit") >= 0);
    }
}

}  // namespace rondo
