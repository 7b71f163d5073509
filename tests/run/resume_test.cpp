// Tests resumed runs: the same bits as a run that never stopped, on the same number of ranks; the
// same weights, optimizer and samples on another.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "checkpoint/committed.h"
#include "tests/run/checkpoints.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

// Checkpoints every 5 steps; a schedule of 20 steps for any number of steps.
const Words kSaving = {"--checkpoint.enable=true", "--checkpoint.interval=5",
                       "--lr_scheduler.total_steps=20"};

void check_same(const Place& place, const std::string& a, const std::string& b,
                const std::string& hashed = "20") {
  const ProgramResult compared = place.compare(a, b);
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
  CHECK_THAT(compared.output, ContainsSubstring("equal bit for bit on 20 steps") &&
                                  ContainsSubstring("state_hash on " + hashed));
}

TEST_CASE("a resumed run has the bits of a run that never stopped") {
  const auto [name, flags] = GENERATE(table<std::string, Words>({
      {"replay", {"--compile.executor=replay"}},
      {"interpreter", {"--compile.executor=interpreter", "--training.document_attention=true"}},
      {"eager", {"--compile.enable=false", "--training.mixed_precision_param=bfloat16"}},
      {"accumulation, moments in bf16",
       {"--training.global_batch_size=8", "--optimizer.implementation=fused_opt_states_bf16"}},
      {"bfloat16 state, async", {"--training.dtype=bfloat16", "--checkpoint.async_mode=async"}},
  }));
  INFO(name);
  const Place place;
  place.play(2, "straight", flags + steps(20) + kSaving);
  place.play(2, "stopped", flags + steps(12) + kSaving);
  const ProgramResult resumed = place.play(2, "stopped", flags + steps(20) + kSaving);
  CHECK_THAT(resumed.output,
             ContainsSubstring("resumed from ") && ContainsSubstring("step-12: 12 of 20 steps are done"));
  check_same(place, "straight", "stopped");
  check_same_tensors(place / "straight/checkpoint/step-20", place / "stopped/checkpoint/step-20");
}

TEST_CASE(
    "a run that is killed between saves computes the steps since the last one again, to the same bits") {
  const Place place;
  const Words curves = {"--metrics.enable_tensorboard=true"};
  place.play(2, "straight", steps(20) + kSaving);
  must_end_well(place.launch(2, "killed", steps(12) + kSaving + curves));
  fs::remove_all(place / "killed/checkpoint/step-12");
  const ProgramResult resumed = must_end_well(place.launch(2, "killed", steps(20) + kSaving + curves));
  CHECK_THAT(resumed.output,
             ContainsSubstring("step-10: 10 of 20 steps are done; steps 11 to 12 are computed again"));
  check_same(place, "straight", "killed");
  // The folder is continued: one file of metrics, one folder of curves, nothing moved away.
  CHECK(lines_of(place / "killed/metrics.superseded.jsonl").size() == 2);
  CHECK(std::distance(fs::directory_iterator(place / "killed/tb"), fs::directory_iterator()) == 2);
  CHECK_FALSE(fs::exists(place / "killed/previous-1"));
  CHECK_THAT(resumed.output, ContainsSubstring("the previous run in this folder ended with 0 at "));
  const ProgramResult report = rondo({"report", (place / "killed").string(), "--text"});
  CHECK_THAT(report.output, ContainsSubstring("  goodput ") && ContainsSubstring(" in 2 starts"));
}

TEST_CASE("a run leaves out the samples of some steps, from its start or when it goes back before them") {
  const Place place;
  // Weights do not change, so a loss depends on the samples of its step alone.
  const Words frozen = {"--optimizer.lr=0", "--optimizer.weight_decay=0", "--debug.hash_every=0"};
  const auto losses = [&](const std::string& name) {
    std::vector<double> all;
    for (const nlohmann::json& line : place.metrics(name)) all.push_back(line["loss"]);
    return all;
  };
  place.play(2, "all", frozen + steps(15) + kSaving);
  const Words skips = {"--training.skip_data_of_steps=2,7-8,8-9"};
  const ProgramResult start = place.play(2, "some", frozen + steps(11) + skips);
  CHECK_THAT(start.output, ContainsSubstring("data: samples 4 to 7, 24 to 35 are left out"));
  std::vector<double> left = losses("all");
  left.erase(left.begin() + 6, left.begin() + 9);
  const std::vector<double> gone_back = left;  // step 2 was done before
  left.erase(left.begin() + 1);
  CHECK(losses("some") == left);

  const ProgramResult back =
      place.play(2, "all", frozen + steps(12) + kSaving + skips + Words{"--checkpoint.load_step=5"});
  CHECK_THAT(
      back.output,
      ContainsSubstring("training.skip_data_of_steps has no effect on samples 4 to 7: the checkpoint") &&
          ContainsSubstring("data: samples 24 to 35 are left out") &&
          ContainsSubstring("data: goes on with sample 20"));
  CHECK(losses("all") == gone_back);
}

TEST_CASE("another number of ranks restores every bit of weights and optimizer") {
  const int ranks = GENERATE(1, 3, 4);
  INFO(ranks);
  const Place place;
  const Words batch = {"--training.local_batch_size=1", "--training.global_batch_size=12"};
  place.play(2, "two", batch + steps(12) + kSaving);
  const std::string from = (place / "two/checkpoint/step-12").string();
  place.play(
      ranks, "others",
      batch + steps(12) + kSaving +
          Words{"--checkpoint.initial_load_path=" + from, "--checkpoint.initial_load_model_only=false"});
  check_same_tensors(from, place / "others/checkpoint/step-12");
}

TEST_CASE("another number of ranks continues with the next samples, each of them once") {
  const Place place;
  const Words batch = {"--training.local_batch_size=1", "--training.global_batch_size=12"};
  place.play(2, "straight", batch + steps(20) + kSaving);
  place.play(2, "changed", batch + steps(12) + kSaving);
  place.play(3, "changed", batch + steps(20) + kSaving);
  const auto straight = place.metrics("straight"), changed = place.metrics("changed");
  REQUIRE(changed.size() == 20);
  for (std::size_t step = 0; step < 20; ++step) {
    INFO(step + 1);
    CHECK(changed[step]["tokens_seen"] == straight[step]["tokens_seen"]);
    CHECK_THAT(changed[step]["loss"].get<double>(),
               Catch::Matchers::WithinRel(straight[step]["loss"].get<double>(), 2e-5));
  }
}

TEST_CASE("a run continues with another batch size where its data left off") {
  const Place place;
  place.play(2, "run", steps(5) + kSaving);  // 4 sequences of 32 tokens per step
  place.play(2, "run", steps(8) + kSaving + Words{"--training.global_batch_size=8"});
  CHECK(place.metrics("run")[4]["tokens_seen"] == 5 * 4 * 32);
  CHECK(place.metrics("run")[7]["tokens_seen"] == 5 * 4 * 32 + 3 * 8 * 32);
  const checkpoint::Reader saved(place / "run/checkpoint/step-8");
  CHECK(saved.manifest().data["sample"] == 5 * 4 + 3 * 8);
}

TEST_CASE("a damaged checkpoint is skipped by name for the previous one") {
  const std::string what = GENERATE("shard", "manifest", "mark", "a sample beyond all data");
  INFO(what);
  const Place place;
  place.play(2, "straight", steps(20) + kSaving);
  place.play(2, "damaged", steps(12) + kSaving);
  const fs::path newest = place / "damaged/checkpoint/step-12";
  if (what == "mark") {
    fs::remove(newest / "COMMITTED");
  } else if (what == "a sample beyond all data") {  // with a matching mark
    nlohmann::json manifest = nlohmann::json::parse(text_of(newest / "manifest.json"));
    manifest["data"]["sample"] = INT64_MAX;
    write_text(newest / "manifest.json", manifest.dump());
    write_text(newest / "COMMITTED", checkpoint::committed_text(manifest.dump()));
  } else {
    const fs::path file = newest / (what == "shard" ? "rank-00001.bin" : "manifest.json");
    std::string bytes = text_of(file);
    bytes[bytes.size() / 2] ^= 1;
    write_text(file, bytes);
  }
  const ProgramResult resumed = place.play(2, "damaged", steps(20) + kSaving);
  CHECK_THAT(resumed.output,
             ContainsSubstring("step-12 is skipped: ") && ContainsSubstring("step-10: 10 of 20"));
  if (what == "shard") CHECK_THAT(resumed.output, ContainsSubstring("step-12 is skipped: rank 1 on "));
  check_same(place, "straight", "damaged");
}

TEST_CASE("if every checkpoint is damaged the run ends with 5 and does not start from step 0") {
  const Place place;
  place.play(2, "run", steps(10) + kSaving);
  for (const int step : {5, 10}) {
    const fs::path shard = place / fmt::format("run/checkpoint/step-{}/rank-00000.bin", step);
    fs::resize_file(shard, fs::file_size(shard) - 1);
  }
  const ProgramResult refused = rondo(place.launch(2, "run", steps(20) + kSaving));
  INFO(refused.output);
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.output, ContainsSubstring("none of the checkpoints in ") &&
                                 ContainsSubstring("is valid; `rondo checkpoint verify "));
}

TEST_CASE("a refused start names the reason in one line and leaves the run folder unchanged") {
  const Place place;
  place.play(2, "run", steps(5) + kSaving);
  const auto left = [&] {
    std::string all;
    for (const char* file : {"exit.json", "config.toml", "events.jsonl", "metrics.jsonl"})
      all += text_of(place / "run" / file);
    return all;
  };
  const std::string before = left();
  const auto refused = [&](const Words& flags, int code, const std::string& why) {
    const ProgramResult run = rondo(place.launch(2, "run", steps(20) + kSaving + flags));
    INFO(run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output, ContainsSubstring(why));
    CHECK(left() == before);
    CHECK_FALSE(fs::exists(place / "run/previous-1"));
  };
  refused({"--model.rope_theta=10000", "--model.dim=32"}, 5,
          "step-5 is of another model than this run's; set model.dim = 64 (here 32), model.rope_theta = "
          "500000.0 (here 10000.0), or choose another job.dump_folder");
  refused({"--training.seq_len=16"}, 4, "the sequence length is 32 in the checkpoint, but 16 in this run");
  refused({"--checkpoint.load_step=7"}, 5, "checkpoint.load_step = 7: ");
  refused({"--training.dataset_path=/no/such/corpus"}, 4, "/no/such/corpus");
  refused({"--training.tokenizer=/no/such/tokenizer"}, 4, "/no/such/tokenizer");
  refused({"--optimizer.name=Adam"}, 5, "step-5 holds the moments of another optimizer; set optimizer.name");
  refused({"--training.dtype=bfloat16"}, 5, "step-5 holds the optimizer's state in f32");
  // A refused start changes nothing: the run can still be resumed. Changed settings are reported.
  const ProgramResult resumed = place.play(2, "run", steps(6) + kSaving + Words{"--optimizer.lr=0.5"});
  CHECK_THAT(resumed.output, ContainsSubstring("optimizer.lr: 0.002 in the checkpoint, 0.5 now"));
  CHECK_THAT(resumed.output, ContainsSubstring("training.steps: 5 in the checkpoint, 6 now"));
}

TEST_CASE("checkpoint.load_step goes back to that step") {
  const Place place;
  place.play(2, "straight", steps(20) + kSaving);
  place.play(2, "back", steps(15) + kSaving);
  const ProgramResult resumed =
      place.play(2, "back", steps(20) + kSaving + Words{"--checkpoint.load_step=5"});
  CHECK_THAT(resumed.output,
             ContainsSubstring("step-5: 5 of 20 steps are done; steps 6 to 15 are computed again"));
  check_same(place, "straight", "back");
}

TEST_CASE(
    "a run that went back resumes from there when it is started again, and later checkpoints are set aside") {
  const Place place;
  const Words back = {"--checkpoint.load_step=5", "--checkpoint.keep_latest_k=2"};
  place.play(2, "run", steps(15) + kSaving);
  place.play(2, "run", steps(8) + kSaving + back);
  CHECK(fs::exists(place / "run/checkpoint/abandoned-1/step-10/COMMITTED"));
  CHECK(fs::exists(place / "run/checkpoint/abandoned-1/step-15/COMMITTED"));
  const ProgramResult again = place.play(2, "run", steps(12) + kSaving + back);
  CHECK_THAT(again.output, ContainsSubstring("step-8: 8 of 12 steps are done"));
  CHECK_FALSE(fs::exists(place / "run/checkpoint/abandoned-2"));
  CHECK(fs::exists(place / "run/checkpoint/step-12/COMMITTED"));
}

TEST_CASE("excluded parts are reset once, and not again at the next resume") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=dataloader,optimizer"};
  place.play(2, "run", steps(10) + kSaving);
  const ProgramResult first = place.play(2, "run", steps(12) + kSaving + excluded);
  CHECK_THAT(first.output, ContainsSubstring("exclude_from_loading resets dataloader, optimizer"));
  const ProgramResult second = place.play(2, "run", steps(14) + kSaving + excluded);
  CHECK(second.output.find("exclude_from_loading resets") == std::string::npos);
  CHECK_THAT(second.output, ContainsSubstring("this run has reset dataloader at step 10 already") &&
                                ContainsSubstring("this run has reset optimizer at step 10 already"));
  CHECK(checkpoint::Reader(place / "run/checkpoint/step-12").manifest().data["sample"] == 2 * 4);
  CHECK(checkpoint::Reader(place / "run/checkpoint/step-14").manifest().data["sample"] == 4 * 4);
}

TEST_CASE("weights alone, imported weights and an unfinished save cannot be resumed from") {
  const Place place;
  const Words weights = {"--checkpoint.enable=true", "--training.steps=4", "--lr_scheduler.total_steps=20",
                         "--checkpoint.last_save_in_hf=true", "--checkpoint.last_save_model_only=true"};
  place.play(2, "run", weights);
  fs::remove_all(place / "run/checkpoint/step-4");
  fs::rename(place / "run/checkpoint/step-4-weights", place / "run/checkpoint/step-4");
  const ProgramResult by_step =
      rondo(place.launch(2, "run", kSaving + steps(8) + Words{"--checkpoint.load_step=4"}));
  INFO(by_step.output);
  CHECK(by_step.exit_code == 5);
  CHECK_THAT(by_step.output, ContainsSubstring("with no optimizer state to resume from"));

  must_end_well(
      {"convert", (place / "run/checkpoint/step-4-hf").string(), (place / "imported/checkpoint").string()});
  const ProgramResult imported = rondo(place.launch(2, "imported", kSaving + steps(8)));
  INFO(imported.output);
  CHECK(imported.exit_code == 5);
  CHECK_THAT(imported.output, ContainsSubstring("step-0 holds imported weights, which no run has trained"));

  place.play(2, "dead", kSaving + steps(5));
  fs::remove(place / "dead/checkpoint/step-5/COMMITTED");
  const ProgramResult restarted = place.play(2, "dead", kSaving + steps(6));
  CHECK_THAT(restarted.output, ContainsSubstring("step-5 is skipped: it has no COMMITTED"));
  CHECK_THAT(restarted.output, ContainsSubstring("the run starts at step 0"));
  CHECK(place.metrics("dead").size() == 6);
}

TEST_CASE(
    "a finished run can be extended by default, and requested weights are next to its last checkpoint") {
  const Place place;
  const Words saving = {"--checkpoint.enable=true", "--checkpoint.interval=100",
                        "--lr_scheduler.total_steps=20", "--checkpoint.export_dtype=bfloat16"};
  const Words weights = {"--checkpoint.last_save_model_only=true"};
  place.play(2, "run", steps(4) + saving + weights);
  CHECK(checkpoint::Reader(place / "run/checkpoint/step-4").manifest().kind == checkpoint::Kind::full);
  const fs::path exported = place / "run/checkpoint/step-4-weights";
  CHECK(checkpoint::Reader(exported).manifest().kind == checkpoint::Kind::model);
  CHECK(checkpoint::Reader(exported).manifest().find("model/output.weight")->dtype == "bf16");
  const std::string end = text_of(place / "run/exit.json");
  const ProgramResult again = place.play(2, "run", steps(4) + saving + weights);
  CHECK_THAT(again.output,
             ContainsSubstring("4 steps are done, and training.steps is 4. Nothing is left to train"));
  CHECK(text_of(place / "run/exit.json") == end);
  const ProgramResult longer = place.play(2, "run", steps(8) + saving);
  CHECK_THAT(longer.output, ContainsSubstring("4 of 8 steps are done"));
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-8-weights"));
  const ProgramResult from_weights =
      place.play(2, "new", steps(4) + saving + Words{"--checkpoint.initial_load_path=" + exported.string()});
  CHECK_THAT(from_weights.output, ContainsSubstring("starts from the weights of "));
  CHECK(place.metrics("new")[0]["loss"] < place.metrics("run")[0]["loss"]);
}

TEST_CASE("a seed checkpoint has the initial weights of any layout") {
  const Place place;
  const Words seed = {"--checkpoint.enable=true", "--checkpoint.create_seed_checkpoint=true"};
  place.play(1, "one", seed);
  place.play(3, "three", seed);
  CHECK(check_same_tensors(place / "one/checkpoint/step-0", place / "three/checkpoint/step-0") == 21);
}

TEST_CASE("old checkpoints are deleted, and keep_latest_k stay") {
  const Place place;
  place.play(2, "run", steps(20) + kSaving + Words{"--checkpoint.keep_latest_k=2"});
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-5"));
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-10"));
  CHECK(fs::exists(place / "run/checkpoint/step-15/COMMITTED"));
  CHECK(fs::exists(place / "run/checkpoint/step-20/COMMITTED"));
}

// Flips one bit of a stored shard.
void damage(const fs::path& shard) {
  std::string bytes = text_of(shard);
  bytes[1000] ^= 1;
  write_text(shard, bytes);
}

TEST_CASE("a damaged checkpoint takes no place of keep_latest_k: the one that the run resumed from stays") {
  const Place place;
  place.play(2, "run", steps(10) + kSaving);
  damage(place / "run/checkpoint/step-10/rank-00001.bin");
  const ProgramResult resumed =
      place.play(2, "run", steps(12) + kSaving + Words{"--checkpoint.keep_latest_k=3"});
  CHECK_THAT(resumed.output, ContainsSubstring("step-5: 5 of 12 steps are done"));
  CHECK(fs::exists(place / "run/checkpoint/step-10.replaced-1"));
  CHECK(fs::exists(place / "run/checkpoint/step-5/COMMITTED"));
}

TEST_CASE("load_only resumes and saves nothing; excluded parts are reset") {
  const Place place;
  place.play(2, "run", steps(10) + kSaving);
  place.play(2, "run", steps(13) + kSaving + Words{"--checkpoint.load_only=true"});
  CHECK_FALSE(fs::exists(place / "run/checkpoint/step-13"));
  place.play(
      2, "run",
      steps(13) + kSaving +
          Words{"--checkpoint.load_only=true", "--checkpoint.exclude_from_loading=lr_scheduler,train_state"});
  const auto metrics = place.metrics("run");
  REQUIRE(metrics.size() == 13);  // from step 1 on
  const std::vector<std::string> before = lines_of(place / "run/metrics.superseded.jsonl");
  REQUIRE(before.size() == 13);
  CHECK(metrics[0]["lr"] == nlohmann::json::parse(before[0])["lr"]);
  CHECK(metrics[0]["loss"] < nlohmann::json::parse(before[0])["loss"]);
}

}  // namespace
}  // namespace rondo
