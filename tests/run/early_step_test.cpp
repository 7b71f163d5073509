// Tests updates in the backward on ranks: the step has the bits of an update at the end, and a
// checkpoint of either resumes as the other.
#include "tests/run/resumes_either_way.h"

namespace rondo {
namespace {

const Words kAtTheEnd = {"--training.max_norm=inf", "--validation.enable=false", "--training.steps=4",
                         "--lr_scheduler.total_steps=4"};
const Words kEarly = kAtTheEnd + Words{"--optimizer.early_step_in_backward=true"};

TEST_CASE("ranks that update in the backward have the bits of ranks that update at the end") {
  const Place place;
  const Words layout = {"--parallelism.tensor_parallel_degree=2", "--training.mixed_precision_param=bfloat16",
                        "--metrics.verbosity=detailed"};
  place.play(4, "eager", kAtTheEnd + layout + kEager);
  const ProgramResult run = place.play(4, "replayed", kEarly + layout);
  CHECK_THAT(run.output, Catch::Matchers::ContainsSubstring("3 of 4 updates run in the backward"));
  place.play(4, "interpreted", kEarly + layout + kInterpreter);
  check_equal(place, "eager", "replayed", 4);
  check_equal(place, "eager", "interpreted", 4);
}

TEST_CASE("a checkpoint of early updates resumes with updates at the end, and the other way round") {
  const Words saving = {"--checkpoint.enable=true", "--checkpoint.interval=2",
                        "--parallelism.data_parallel_replicate_degree=2",
                        "--parallelism.data_parallel_shard_degree=1"};
  check_resumes_either_way(kAtTheEnd, kEarly, saving);
}

}  // namespace
}  // namespace rondo
