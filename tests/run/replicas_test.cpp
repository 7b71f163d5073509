// Tests replicas of a model (DDP) and of a sharded model (HSDP): the ladder, other layouts,
// checkpoints. With debug.hash_every each of these runs also compares the bits of all replicas at
// every step.
#include <catch2/generators/catch_generators.hpp>

#include "tests/run/checkpoints.h"
#include "tests/run/ladder.h"
#include "tests/run/processes.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// The last columns contain every pair of settings; ladder_full_test.cpp has all points.
TEST_CASE("replicas have the same bits eager, interpreted and replayed") {
  climb({2, false, false, false, true}, Grid{2, 1}.flags());
  climb({4, true, true, false, false}, Grid{4, 1}.flags());
  climb({4, false, true, true, true}, Grid{2, 2}.flags());
  climb({4, true, false, true, false}, Grid{2, 2}.flags());
}

TEST_CASE("replicas that reduce in bfloat16 have the same bits eager, interpreted and replayed") {
  climb(
      {4, true, false, false, false},
      Grid{2, 2}.flags() + Words{"--training.mixed_precision_reduce=bfloat16", "--training.dtype=bfloat16"});
}

TEST_CASE("with replicas neither leaving out a pass nor a separate group for gathers changes a bit") {
  const Place place;
  const Point point{4, true, false, false, true};
  const Words grid = Grid{2, 2}.flags();
  run_at(place, point, "all", grid + Words{"--compile.memory_policy=default"});
  run_at(place, point, "none", grid + Words{"--compile.memory_policy=default", "--compile.passes=[]"});
  run_at(place, point, "without overlap", grid + Words{"--compile.disable_passes=overlap_fsdp"});
  run_at(place, point, "single sums", grid + Words{"--compile.disable_passes=bucket_replica_sums"});
  run_at(place, point, "gathers apart", grid + Words{"--compile.enable_fsdp_ag_rs_overlap=true"});
  for (const char* other : {"none", "without overlap", "single sums", "gathers apart"})
    check_equal(place, "all", other);
}

// Flags for the same global batch of 12 sequences: in one microbatch, or in microbatches of
// one sequence.
void run_on(const Place& place, const Grid& grid, const std::string& name, int steps) {
  place.play(
      grid.ranks(), name,
      grid.flags() + Words{"--training.global_batch_size=12",
                           fmt::format("--training.local_batch_size={}", steps == 1 ? 12 / grid.ranks() : 1),
                           fmt::format("--training.steps={}", steps), "--training.document_attention=true",
                           "--lr_scheduler.warmup_steps=0"});
}

TEST_CASE("replicas have the loss and gradient norm of 1 rank, in one microbatch and in several") {
  const Place place;
  for (const int steps : {1, 3}) {
    const std::string one = fmt::format("1 for {}", steps);
    run_on(place, {1, 1}, one, steps);
    for (const Grid& grid : {Grid{2, 1}, Grid{3, 1}, Grid{4, 1}, Grid{2, 2}}) {
      const std::string name = fmt::format("{} for {}", grid.name(), steps);
      run_on(place, grid, name, steps);
      const ProgramResult compared = place.compare(one, name, {"--tolerance", steps == 1 ? "3e-7" : "1e-6"});
      INFO(name << ":\n" << compared.output);
      CHECK(compared.exit_code == 0);
    }
  }
}

TEST_CASE(
    "all layouts start from the same weights, and a rank of the first replica writes each of them once") {
  const Place place;
  const Words seed = {"--checkpoint.enable=true", "--checkpoint.create_seed_checkpoint=true"};
  place.play(1, "one", seed);
  for (const Grid& grid : {Grid{1, 3}, Grid{2, 1}, Grid{2, 2}, Grid{4, 1}}) {
    INFO(grid.name());
    place.play(grid.ranks(), grid.name(), grid.flags() + seed);
    const fs::path saved = place / grid.name() / "checkpoint/step-0";
    CHECK(check_same_tensors(place / "one/checkpoint/step-0", saved) == 21);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(saved)) files += entry.path().extension() == ".bin";
    CHECK(files == grid.shard);
  }
}

const Words kSavesReplicas = {"--checkpoint.enable=true", "--checkpoint.interval=5",
                              "--lr_scheduler.total_steps=20", "--training.local_batch_size=1",
                              "--training.global_batch_size=12"};
TEST_CASE("a resumed run of replicas has the bits of one that never stopped") {
  const auto [replicate, shard, mode] =
      GENERATE(table<int, int, std::string>({{2, 2, "disabled"}, {2, 1, "async"}}));
  const Grid grid{replicate, shard};
  INFO(grid.name());
  const Place place;
  const Words flags = grid.flags() + kSavesReplicas + Words{"--checkpoint.async_mode=" + mode};
  place.play(grid.ranks(), "straight", flags + steps(20));
  place.play(grid.ranks(), "stopped", flags + steps(12));
  place.play(grid.ranks(), "stopped", flags + steps(20));
  check_equal(place, "straight", "stopped", 20);
  check_same_tensors(place / "straight/checkpoint/step-20", place / "stopped/checkpoint/step-20");
}

TEST_CASE(
    "any layout restores every bit of weights and optimizer of any other, and continues with its samples") {
  const Place place;
  const Words there = {"--checkpoint.initial_load_model_only=false"};
  place.play(4, "first", Grid{2, 2}.flags() + kSavesReplicas + steps(12));
  fs::path before = place / "first/checkpoint/step-12";
  for (const Grid& grid : {Grid{1, 3}, Grid{2, 2}, Grid{1, 1}, Grid{4, 1}, Grid{2, 2}}) {
    INFO(before << " read by " << grid.name());
    const std::string name =
        fmt::format("from {} by {}", before.parent_path().parent_path().filename().string(), grid.name());
    place.play(grid.ranks(), name,
               grid.flags() + kSavesReplicas + steps(12) + there +
                   Words{"--checkpoint.initial_load_path=" + before.string()});
    const fs::path after = place / name / "checkpoint/step-12";
    CHECK(check_same_tensors(before, after) > 21);
    before = after;
  }
  // Training continues.
  place.play(4, "straight", Grid{2, 2}.flags() + kSavesReplicas + steps(16));
  place.play(3, "first", Grid{1, 3}.flags() + kSavesReplicas + steps(14));
  place.play(4, "first", Grid{4, 1}.flags() + kSavesReplicas + steps(16));
  const auto straight = place.metrics("straight"), changed = place.metrics("first");
  REQUIRE(changed.size() == 16);
  for (std::size_t step = 0; step < 16; ++step) {
    INFO(step + 1);
    CHECK(changed[step]["tokens_seen"] == straight[step]["tokens_seen"]);
    const double expected = straight[step]["loss"];
    CHECK(std::abs(changed[step]["loss"].get<double>() - expected) < 2e-5 * expected);
  }
}

// Rank 1 has another learning rate from the first step of the decay on, which is step 4.
TEST_CASE("a replica that drifts ends the run with 8 at the next check or hash, with rank and tensor") {
  const auto [check, hash, step] = GENERATE(table<int, int, int>({{6, 0, 6}, {0, 1, 4}}));
  const Place place;
  const Words words =
      place.launch(2, "run",
                   Grid{2, 1}.flags() + Words{"--lr_scheduler.decay_type=cosine", "--training.steps=12",
                                              "--validation.enable=false",
                                              fmt::format("--debug.check_replicas_every={}", check),
                                              fmt::format("--debug.hash_every={}", hash)});
  const launch::Finished end =
      launch::Launch(without_launch(words), {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libother_cosine.so"},
                                             {"OTHER_COSINE_RANK", "1"}})
          .wait();
  INFO(end.out << end.err);
  CHECK(end.code == 8);
  CHECK_THAT(end.err,
             ContainsSubstring(fmt::format("step {}: ranks that should hold the same state have drifted "
                                           "apart: rank 1 has other bits than rank 0 of model/",
                                           step)));
  CHECK_THAT(end.err, ContainsSubstring("no hash has a majority, so either may be wrong"));
}

TEST_CASE(
    "replicas of a stage are compared with each other, and ranks of other stages report the same tensor") {
  const Place place;
  const Words words =
      place.launch(4, "run",
                   Grid{2, 1}.flags() + Words{"--parallelism.pipeline_parallel_degree=2",
                                              "--lr_scheduler.decay_type=cosine", "--training.steps=12",
                                              "--validation.enable=false", "--debug.check_replicas_every=6",
                                              "--debug.hash_every=0"});
  const launch::Finished end =
      launch::Launch(without_launch(words), {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libother_cosine.so"},
                                             {"OTHER_COSINE_RANK", "3"}})
          .wait();
  INFO(end.out << end.err);
  CHECK(end.code == 8);
  CHECK_THAT(end.err,
             ContainsSubstring(" error: step 6: ranks that should hold the same state have "
                               "drifted apart: rank 3 has other bits than rank 2 of model/layers.1."));
}

TEST_CASE("a rank that delays the others is named, once") {
  const Place place;
  const Words words =
      place.launch(2, "run",
                   Grid{2, 1}.flags() + Words{"--lr_scheduler.decay_type=cosine", "--training.steps=6",
                                              "--lr_scheduler.warmup_steps=0", "--validation.enable=false",
                                              "--debug.check_replicas_every=2"});
  const launch::Finished end =
      launch::Launch(without_launch(words), {{"LD_PRELOAD", RONDO_BINARY_DIR "/tests/libother_cosine.so"},
                                             {"SLOW_COSINE_RANK", "1"}})
          .wait();
  INFO(end.out << end.err);
  CHECK(end.code == 0);
  const std::string said = end.out + end.err, warning = "rank 1 delays the others: in steps 3 to 4";
  REQUIRE(said.find(warning) != std::string::npos);
  CHECK(said.find("delays the others", said.find(warning) + warning.size()) == std::string::npos);
}

TEST_CASE("a killed rank of any replica ends the run with 137, and nobody survives") {
  const int victim = GENERATE(0, 3);
  const Place place;
  const Mark mark;
  const Words words = place.launch(4, "run", Grid{2, 2}.flags() + Words{"--training.steps=1000000"});
  launch::Launch launcher(without_launch(words), {mark.setting()});
  REQUIRE(launch::holds_soon([&] { return lines_of(place / "run" / "metrics.jsonl").size() >= 3; }));
  const std::vector<int> rank = mark.processes(fmt::format("RANK={}", victim));
  REQUIRE(rank.size() == 1);
  kill(rank[0], SIGKILL);
  const launch::Finished end = launcher.wait();
  INFO(end.out << end.err);
  CHECK(end.code == 137);
  CHECK_THAT(end.err, ContainsSubstring(fmt::format("rank {} (local rank {}", victim, victim)));
  CHECK(mark.all_gone());
}

TEST_CASE(
    "degrees whose product is not the ranks end with 3 and the arithmetic, before anything is written") {
  const Place place;
  const ProgramResult run = rondo(place.launch(2, "run", Grid{2, 2}.flags()));
  INFO(run.output);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.output,
             ContainsSubstring("replicate 2 * shard 2 * context 1 * tensor 1 = 4 ranks, but the run "
                               "has 2; start 4 ranks"));
}

}  // namespace
}  // namespace rondo
