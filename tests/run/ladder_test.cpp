// Tests the ladder: the same bits with every executor, without any exact pass, and in a
// repeated run. The points of the matrix contain every pair of settings; ladder_full_test.cpp
// has all points.
#include "tests/run/ladder.h"

#include <array>

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// Two opposite points for each number of ranks; the last four columns contain every triple
// of settings.
constexpr std::array kPairs = {
    Point{1, false, false, false, false}, Point{1, true, true, true, true},
    Point{2, false, false, true, true},   Point{2, true, true, false, false},
    Point{3, false, true, false, true},   Point{3, true, false, true, false},
    Point{4, false, true, true, false},   Point{4, true, false, false, true},
};

TEST_CASE("eager, interpreted and replayed steps have the same bits for every pair of settings") {
  for (const Point& point : kPairs) climb(point);
}

TEST_CASE("bfloat16 master weights have the same bits eager, interpreted and replayed") {
  climb({2, true, false, false, false},
        {"--training.dtype=bfloat16", "--training.mixed_precision_reduce=bfloat16"});
}

TEST_CASE("gradients reduced once a step have the same bits eager, interpreted and replayed") {
  climb({2, true, true, false, true}, {"--parallelism.fsdp_gradient_sync=step"});
}

TEST_CASE("ranks that share sequences have the same bits eager, interpreted and replayed") {
  for (const char* method : {"allgather", "alltoall"})
    climb({2, true, false, false, false},
          {"--parallelism.context_parallel_degree=2", "--parallelism.data_parallel_shard_degree=1",
           std::string("--parallelism.context_parallel_rotate_method=") + method});
}

TEST_CASE("leaving out an exact pass changes no bit") {
  leave_out_passes({2, true, false, false, true}, "interpreter");
  leave_out_passes({2, false, true, true, false}, "replay");
}

TEST_CASE("every memory policy has the bits of the eager step") {
  keep_and_recompute({1, true, true, false, true}, {"default", "full"});
  keep_and_recompute({2, true, false, false, false}, kPolicies);
  keep_and_recompute({3, false, true, false, true}, {"min_cut", "budget"});
  keep_and_recompute({4, false, false, true, false}, {"eager", "full"});
}

TEST_CASE("configured buckets change no bit") {
  const Place place;
  const Point point{2, true, false, false, false};
  run_at(place, point, "the model's", {});
  run_at(place, point, "the user's",
         {"--compile.fsdp_buckets=[\"layers.0.*|layers.1.*\", \"*norm.weight\"]"});
  check_equal(place, "the model's", "the user's");
}

TEST_CASE("a group for gathers, and buckets by size, change no bit") {
  const Place place;
  const Point point{3, true, false, false, false};
  run_at(place, point, "one group", {});
  run_at(place, point, "two groups", {"--compile.enable_fsdp_ag_rs_overlap=true"});
  run_at(place, point, "by size", {"--compile.passes=default,auto_bucketing"});
  check_equal(place, "one group", "two groups");
  check_equal(place, "one group", "by size");
}

TEST_CASE("every rank writes its graph and its memory on request") {
  const Place place;
  run_at(place, {2, false, false, false, false}, "run", {"--compile.dump_ranks=all", "--training.steps=2"});
  for (const char* folder : {"graph", "graph/rank_1"})
    for (const char* file : {"train_step.ir", "train_step.memory.html", "validate.ir"})
      CHECK(std::filesystem::exists(place / "run" / folder / file));
  CHECK(text_of(place / "run" / "graph" / "train_step.ir") ==
        text_of(place / "run" / "graph" / "rank_1" / "train_step.ir"));
}

TEST_CASE("a run repeated has the same bits") {
  const Place place;
  const Point point{3, true, true, false, true};
  run_at(place, point, "first", {});
  run_at(place, point, "second", {});
  check_equal(place, "first", "second");
}

TEST_CASE("recomputing layers in the backward changes no bit of the eager run") {
  const Place place;
  const Point point{2, true, false, false, true};
  run_at(place, point, "saved", kEager);
  run_at(place, point, "recomputed", kEager + Words{"--activation_checkpoint.mode=full"});
  check_equal(place, "saved", "recomputed");
  const Words selective = kEager + Words{"--activation_checkpoint.mode=selective"};
  run_at(place, point, "by op", selective);
  check_equal(place, "saved", "by op");
  run_at(place, point, "by layer", selective + Words{"--activation_checkpoint.selective_ac_option=2"});
  check_equal(place, "saved", "by layer");
}

TEST_CASE("another seed differs at step 1 in the loss") {
  const Place place;
  const Point point{1, false, false, false, false};
  run_at(place, point, "seed 42", {"--training.steps=2"});
  run_at(place, point, "seed 43", {"--training.steps=2", "--debug.seed=43"});
  const ProgramResult compared = place.compare("seed 42", "seed 43");
  CHECK(compared.exit_code == 1);
  CHECK_THAT(compared.output, ContainsSubstring("different: step 1 is the first that differs, in loss"));
  CHECK_THAT(compared.output, ContainsSubstring("debug.seed: A 42, B 43"));
}

TEST_CASE("another weight decay differs at step 1 in the state") {
  const Place place;
  const Point point{1, false, false, false, false};
  run_at(place, point, "one", {"--training.steps=2"});
  run_at(place, point, "other", {"--training.steps=2", "--optimizer.weight_decay=0.2"});
  const ProgramResult compared = place.compare("one", "other");
  CHECK(compared.exit_code == 1);
  CHECK_THAT(compared.output,
             ContainsSubstring("different: step 1 is the first that differs, in state_hash"));
}

}  // namespace
}  // namespace rondo
