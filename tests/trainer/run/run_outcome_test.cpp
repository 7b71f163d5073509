#include "trainer/run/run_outcome.h"

#include <c10/util/Exception.h>
#include <signal.h>

#include <catch2/catch_test_macros.hpp>

#include "support/error.h"

namespace rondo {
namespace {

RunOutcome outcome_of_throwing(const std::function<void()>& thrower) {
  return outcome_of(
      [&]() -> RunOutcome {
        thrower();
        return {};
      },
      [] { return Reached(); }, JobConfig(), RankEnvironment());
}

const c10::SourceLocation kHere{"", "", 0};

TEST_CASE(
    "a signal before the first step loses nothing and ends with 75 if the run saves, else with 128 + it") {
  JobConfig config;
  CHECK(stopped_at_start(SIGTERM, {}, config).exit_code == 143);
  config.checkpoint.enable = true;
  const RunOutcome resumed = stopped_at_start(SIGTERM, {.checkpoint = 40}, config);
  CHECK(resumed.exit_code == 75);
  CHECK(
      resumed.reason ==
      "stopped by signal 15 (SIGTERM) before the first step was done; nothing is lost, and the same command "
      "resumes from step 40");
  const RunOutcome fresh = stopped_at_start(SIGINT, {}, config);
  CHECK(fresh.exit_code == 130);
  CHECK(fresh.reason.ends_with("the same command starts again"));
}

TEST_CASE("a failed save names the last checkpoint") {
  JobConfig config;
  config.checkpoint.enable = true;
  const Stop stop{.request = StopRequest::signal, .signal = SIGTERM};
  CHECK(outcome_of(stop, {.step = 55, .checkpoint = 40}, config).reason ==
        "stopped by signal 15 (SIGTERM) after step 55; the save failed, and the last checkpoint is step 40");
}

TEST_CASE("exhausted GPU memory ends a run with 9, for each source of the error") {
  const auto throw_of_allocator = [] {
    throw c10::OutOfMemoryError(
        kHere,
        "CUDA out of memory. Tried to allocate 2.00 MiB. If reserved but unallocated memory "
        "is large try setting expandable_segments:True");
  };
  const auto throw_of_runtime = [] { throw c10::AcceleratorError(kHere, 2, "CUDA error: out of memory"); };
  const auto throw_of_cublas = [] {
    TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`");
  };
  for (const std::function<void()>& thrower :
       {std::function<void()>(throw_of_allocator), {throw_of_runtime}, {throw_of_cublas}}) {
    const RunOutcome outcome = outcome_of_throwing(thrower);
    INFO(outcome.reason);
    CHECK(outcome.exit_code == static_cast<int>(ExitCode::resources));
    CHECK(outcome.reason.starts_with("the GPU is out of memory: CUDA "));
    CHECK(outcome.reason.find("expandable_segments") == std::string::npos);
  }
}

TEST_CASE("lack of memory for NCCL ends a run with 9, and a lost peer with 7") {
  const RunOutcome full = outcome_of_throwing([] {
    throw c10::DistBackendError(
        kHere,
        "NCCL error in: NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL "
        "version 2.28.9\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
        "Failed to CUDA calloc 536870912 bytes\n");
  });
  CHECK(full.exit_code == static_cast<int>(ExitCode::resources));
  CHECK(full.reason.starts_with(
      "the GPU is out of memory in a collective: Failed to CUDA calloc 536870912 bytes; "));
  const RunOutcome lost =
      outcome_of_throwing([] { throw c10::DistBackendError(kHere, "Connection closed by peer\nmore"); });
  CHECK(lost.exit_code == static_cast<int>(ExitCode::peer));
}

TEST_CASE("a hardware failure of the GPU ends a run with 9, and a failed kernel with 1") {
  for (const int code : {46, 214, 220}) {
    const RunOutcome broken = outcome_of_throwing(
        [&] { throw c10::AcceleratorError(kHere, code, "CUDA error: uncorrectable error"); });
    CHECK(broken.exit_code == static_cast<int>(ExitCode::resources));
    CHECK(broken.reason.starts_with("the GPU failed: CUDA error: uncorrectable error; "));
  }
  const RunOutcome kernel = outcome_of_throwing(
      [] { throw c10::AcceleratorError(kHere, 719, "CUDA error: unspecified launch failure"); });
  CHECK(kernel.exit_code == static_cast<int>(ExitCode::internal));
}

}  // namespace
}  // namespace rondo
