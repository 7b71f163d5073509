// Deliberate bugs: each is found, and the problem names it. Otherwise the other tests would prove
// nothing. A bug is an additional action of an op in a recording (RONDO_STAND_IN_BUG), or a lost
// call of the program (RONDO_STAND_IN_LOSE); see runtime/journal.h.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/stand_in_cuda/on_stand_in.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Mutant {
  const char* what;
  const char* setting;
  int ranks;
  int code;           // exit code of the run
  const char* found;  // expected among the problems
};

constexpr Mutant kMutants[] = {
    {"an op waits for the device", "RONDO_STAND_IN_BUG=synchronize:250", 1, 10,
     "refused cudaStreamSynchronize error=900"},
    {"an op asks for an event", "RONDO_STAND_IN_BUG=query_event:250", 1, 10,
     "refused cudaEventQuery error=900"},
    {"an op takes memory of the driver", "RONDO_STAND_IN_BUG=malloc:250", 1, 10,
     "refused cudaMalloc error=900"},
    {"an op takes memory behind the capture's back", "RONDO_STAND_IN_BUG=relaxed_malloc:250", 1, 0,
     "after the first recording: alloc kind=device bytes=1048576"},
    {"an op forks and does not join", "RONDO_STAND_IN_BUG=fork:250", 1, 10, "unjoined a kernel of a fork"},
    {"an op copies to memory that is not pinned", "RONDO_STAND_IN_BUG=host_read:250", 1, 0,
     "misused cudaMemcpyAsync error=0: a recorded copy of host memory that is not pinned"},
    {"an op uses the GPU of another rank", "RONDO_STAND_IN_BUG=other_gpu:250", 2, 0,
     "elsewhere cudaMemGetInfo device=1"},
    {"an op has no kernel for this GPU", "RONDO_STAND_IN_BUG=no_kernel:150", 1, 10,
     "misused a launch error=98: the kernel was never registered"},
    {"an op launches too many threads", "RONDO_STAND_IN_BUG=wide_block:150", 1, 10,
     "misused a launch error=9: "},
    {"the pool is freed under its recording", "RONDO_STAND_IN_BUG=free_pool:3", 1, 0,
     "a launched graph copies memory that was freed"},
    {"a collective is not waited for", "RONDO_STAND_IN_LOSE=cudaStreamWaitEvent:4", 2, 0,
     "no order between it (node "},
    {"a collective does not wait for its data", "RONDO_STAND_IN_LOSE=cudaStreamWaitEvent:1", 2, 10,
     "refused cudaStreamWaitEvent error=905"},
    {"what comes after a recording does not wait for it", "RONDO_STAND_IN_LOSE=cudaStreamWaitEvent:1", 1, 0,
     "no order between it and a launched recording of another stream"},
    {"a recording does not wait for what comes before it", "RONDO_STAND_IN_LOSE=cudaStreamWaitEvent:2", 1, 0,
     "misused cudaGraphLaunch error=0: no order between it and work of another stream"},
    {"recordings are not destroyed", "RONDO_STAND_IN_LOSE=cudaGraphExecDestroy:1", 1, 0,
     "1 recordings at the end"},
    {"recordings are destroyed while they run", "RONDO_STAND_IN_LOSE=cudaStreamSynchronize:0", 1, 0,
     "misused cudaGraphExecDestroy error=0: the host has not waited for its last launch"},
    {"pinned memory is not freed", "RONDO_STAND_IN_LOSE=cudaFreeHost:1", 1, 0, "1 pinned_blocks at the end"},
    {"graphs are not destroyed", "RONDO_STAND_IN_LOSE=cudaGraphDestroy:1", 1, 0, "1 graphs at the end"},
    {"compute has the priority of collectives", "RONDO_STAND_IN_BUG=one_priority:1", 2, 0,
     "collectives have no higher priority than kernels"},
};

std::string all_problems(const StandInRun& run, int ranks) {
  std::string all;
  for (const std::string& problem : problems(run.journal(), ranks > 1)) all += problem + "\n";
  return all;
}

}  // namespace

TEST_CASE("forbidden actions of a recorded step are found and named") {
  for (const Mutant& mutant : kMutants) DYNAMIC_SECTION(mutant.what) {
      const StandInRun run;
      const ProgramResult ended = run.run(mutant.ranks, kLlama, steps(6), {mutant.setting});
      INFO(ended.output);
      CHECK(ended.exit_code == mutant.code);
      CHECK_THAT(all_problems(run, mutant.ranks), ContainsSubstring(mutant.found));
    }
}

TEST_CASE("collectives of two groups in parallel branches are found where nothing orders them") {
  const StandInRun run;
  const ProgramResult ended = run.run(4, kLlama,
                                      steps(3) + Words{"--parallelism.data_parallel_replicate_degree=2",
                                                       "--parallelism.tensor_parallel_degree=2"},
                                      {"NCCL_LAUNCH_ORDER_IMPLICIT=0"});
  INFO(ended.output);
  CHECK(ended.exit_code == 0);
  CHECK_THAT(all_problems(run, 4), ContainsSubstring(", of two communicators"));
}

}  // namespace rondo
