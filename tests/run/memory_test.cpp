#include "tests/run/memory_test.h"

namespace rondo {
namespace {

const Words kSmall = {"--model.dim=256",
                      "--model.n_layers=4",
                      "--model.n_heads=16",
                      "--model.n_kv_heads=16",
                      "--model.multiple_of=256",
                      "--model.vocab_size=2048",
                      "--training.local_batch_size=2",
                      "--training.seq_len=256"};

TEST_CASE("a run uses the planned memory, for every memory policy, with one rank") {
  check_policies(1, kSmall);
}
TEST_CASE("a run uses the planned memory, for every memory policy, with two ranks") {
  check_policies(2, kSmall);
}

TEST_CASE(
    "an eager step with selective checkpointing peaks between one that saves all and one that saves none") {
  for (const int ranks : {1, 2}) check_selective(ranks, kSmall);
}

// Two ranks with two stages each; the first rank is measured.
TEST_CASE("a rank of a pipeline uses the planned memory") {
  const Place place;
  const Words pipeline = kSmall + Words{"--parallelism.pipeline_parallel_degree=2",
                                        "--parallelism.pipeline_parallel_schedule=Interleaved1F1B",
                                        "--training.local_batch_size=8"};
  const double measured = memory_of(place, 2, "pipeline", pipeline).measured;
  const nlohmann::json plan = nlohmann::json::parse(
      must_end_well(Words{"plan"} + place.flags("pipeline", pipeline) +
                    Words{"--validation.enable=false", "--world=2", "--rank=0", "--device=cpu", "--json"})
          .output);
  const double planned = plan.at("memory").at("total_bytes");
  INFO("planned " << planned << ", measured " << measured);
  CHECK(measured < 1.03 * planned);
  CHECK(measured > 0.97 * planned);
}

}  // namespace
}  // namespace rondo
