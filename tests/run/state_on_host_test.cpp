// Tests state in host memory on ranks: every layout has the bits of one without, and checkpoints of
// either resume as the other.
#include "tests/run/resumes_either_way.h"

namespace rondo {
namespace {

const Words kPlain = {"--validation.enable=false", "--training.steps=4", "--lr_scheduler.total_steps=4"};
const Words kOnHost = kPlain + Words{"--training.enable_cpu_offload=true"};

TEST_CASE("ranks with their state in host memory have the bits of ranks without") {
  const Place place;
  const std::string bf16 = "--training.mixed_precision_param=bfloat16";
  const Words early = {"--training.max_norm=inf", "--optimizer.early_step_in_backward=true"};
  place.play(2, "fsdp", kPlain + Words{bf16} + kEager);
  const ProgramResult run = place.play(2, "fsdp on host", kOnHost + Words{bf16});
  CHECK_THAT(run.output, Catch::Matchers::ContainsSubstring("in host memory"));
  check_equal(place, "fsdp", "fsdp on host", 4);

  const Words tensor = {"--parallelism.tensor_parallel_degree=2",
                        "--parallelism.data_parallel_replicate_degree=2",
                        "--parallelism.data_parallel_shard_degree=1", "--training.max_norm=inf"};
  place.play(4, "tp", kPlain + tensor);
  place.play(4, "tp on host", kOnHost + tensor + early);
  check_equal(place, "tp", "tp on host", 4);
}

TEST_CASE("a checkpoint of state in host memory resumes on the device, and the other way round") {
  const Words saving = {"--checkpoint.enable=true", "--checkpoint.interval=2"};
  check_resumes_either_way(kPlain, kOnHost, saving);
}

}  // namespace
}  // namespace rondo
