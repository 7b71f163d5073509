// Tests what users see when connections between GPUs fail, settings of ranks differ, or the driver
// offers no GPU.
#include <catch2/matchers/catch_matchers_string.hpp>
#include <future>

#include "tests/run/held_port.h"
#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kLastWords = "Bootstrap : no socket interface found";  // of the stand-in's NCCL

// Runs one of two ranks as a launcher without a program of ours would.
ProgramResult rank_of_two(const StandInRun& run, int rank, const std::string& port, const Words& settings) {
  const std::string number = std::to_string(rank);
  return run.run(1, kLlama, steps(3),
                 Words{"RANK=" + number, "LOCAL_RANK=" + number, "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2",
                       "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port} +
                     settings);
}

ProgramResult doctor(const Words& settings) {
  const StandInRun run;
  return run_program(
      Words{"/usr/bin/env"} + stand_in_settings(run.journals()) + settings + Words{kRondo, "doctor"},
      kRunTimeout_ms);
}

}  // namespace

TEST_CASE("a connection that fails between two steps ends the rank with 7 and does not delay its teardown") {
  for (const char* passes : {"default", "cudagraph"}) DYNAMIC_SECTION(passes) {
      const StandInRun run;
      const ProgramResult ended =
          run.run(2, kLlama, steps(5000) + Words{std::string("--compile.passes=") + passes},
                  {"RONDO_STAND_IN_FAIL=ncclCommGetAsyncError:3:6", "RONDO_STAND_IN_RANK=1"});
      INFO(ended.output);
      CHECK(ended.exit_code == 7);
      CHECK_THAT(ended.output, ContainsSubstring("group dp of rank 1: a connection between GPUs failed"));
      CHECK_THAT(ended.output, !ContainsSubstring("teardown hung"));
      CHECK(run.journal(1).of("communicator_aborted").size() == 1);
    }
}

TEST_CASE("a collective of the first step that another rank never joins ends its group, which is named") {
  const StandInRun run;
  const ProgramResult ended =
      run.run(2, kLlama, steps(3) + Words{"--compile.passes=default", "--comm.init_timeout_seconds=3"},
              {"RONDO_STAND_IN_FAIL=ncclAllGather:5:7"});
  INFO(ended.output);
  CHECK(ended.exit_code == 7);
  CHECK_THAT(
      ended.output,
      ContainsSubstring("group dp of rank ") &&
          ContainsSubstring("a collective of the first step took longer than comm.init_timeout_seconds"));
  CHECK_THAT(ended.output, !ContainsSubstring("teardown hung"));
}

TEST_CASE("the last words of NCCL are reported, not a place in c10d's source") {
  const StandInRun unconnected, lost;
  const ProgramResult at_start = unconnected.run(
      2, kLlama, steps(3), {"RONDO_STAND_IN_FAIL=ncclCommInitRankConfig:1:2", "RONDO_STAND_IN_RANK=1"});
  INFO(at_start.output);
  CHECK(at_start.exit_code == 7);
  CHECK_THAT(at_start.output,
             ContainsSubstring("rank 1 could not connect its GPU to the 2 ranks of group dp: NCCL: unhandled "
                               "system error (run with NCCL_DEBUG=INFO for details); ") &&
                 ContainsSubstring(kLastWords));
  CHECK_THAT(at_start.output, !ContainsSubstring("could not rendezvous"));
  const ProgramResult later =
      lost.run(2, kLlama, steps(3), {"RONDO_STAND_IN_FAIL=ncclAllGather:3:6", "RONDO_STAND_IN_RANK=1"});
  INFO(later.output);
  CHECK(later.exit_code == 7);
  CHECK_THAT(later.output,
             ContainsSubstring("lost contact with another rank after step 0: NCCL: remote process exited or "
                               "there was a network error; ") &&
                 ContainsSubstring(kLastWords));
}

TEST_CASE("ranks with different settings of NCCL are refused and told which") {
  const StandInRun run;
  const std::string port = std::to_string(HeldPort().number());
  auto second = std::async(std::launch::async, [&] { return rank_of_two(run, 1, port, {"NCCL_ALGO=Ring"}); });
  const ProgramResult first = rank_of_two(run, 0, port, {"CUDA_DEVICE_MAX_CONNECTIONS=1"});
  INFO(first.output << second.get().output);
  CHECK(first.exit_code == 3);
  CHECK_THAT(first.output, ContainsSubstring("NCCL_ALGO is ") && ContainsSubstring("Ring on rank 1"));
  CHECK_THAT(first.output, ContainsSubstring("warning: CUDA_DEVICE_MAX_CONNECTIONS=1 gives the GPU"));
}

TEST_CASE("rank 0 alone says which attention runs") {
  const StandInRun run;
  const ProgramResult trained = run.run(2, kLlama, steps(2));
  INFO(trained.output);
  REQUIRE(trained.exit_code == 0);
  const std::size_t at = trained.output.find(" attention: ");
  REQUIRE(at != std::string::npos);
  CHECK(trained.output.find(" attention: ", at + 1) == std::string::npos);
}

TEST_CASE("doctor uses every GPU and says what stands in the way") {
  struct Case {
    const char *fault, *text;
  };
  for (const Case& each :
       {Case{"none:1:1", "ok       cuda         8 x NVIDIA H200, at least 140.4 of 140.4 GiB free"},
        Case{"cudaGetDeviceCount:1:35", "the program needs a driver for CUDA 13, of version 580 or later"},
        Case{"cudaGetDeviceCount:1:802", "nvidia-fabricmanager"},
        Case{"cudaGetDeviceCount:1:100", "compare CUDA_VISIBLE_DEVICES with `nvidia-smi -L`"},
        Case{"cudaMemGetInfo:3:214", "GPU 2 of 8 (NVIDIA H200) does not work: "}})
    DYNAMIC_SECTION(each.fault) {
      const ProgramResult result = doctor({std::string("RONDO_STAND_IN_FAIL=") + each.fault});
      INFO(result.output);
      CHECK_THAT(result.output, ContainsSubstring(each.text));
    }
}

}  // namespace rondo
