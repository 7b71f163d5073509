// Tests Muon on ranks: layouts of every kind equal one rank, all executors have the same bits, and
// checkpoints resume.
#include "tests/run/resumes_either_way.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

const Words kMuon = {"--optimizer.name=Muon", "--validation.enable=false", "--training.steps=4",
                     "--lr_scheduler.total_steps=4"};

void all_hold(const std::string& model, const Words& layouts) {
  Words words = {"prove", RONDO_SOURCE_DIR "/configs/" + model + "_debug.toml", "--optimizer.name=Muon"};
  for (const std::string& layout : layouts) words.insert(words.end(), {"--layout", layout});
  const ProgramResult proved = rondo(words);
  INFO(proved.output);
  CHECK(proved.exit_code == 0);
  CHECK_THAT(proved.output,
             ContainsSubstring(fmt::format("{0} of {0} layouts equal one rank", layouts.size())));
}

TEST_CASE("layouts of a dense model equal one rank with Muon") {
  const std::string original = ",optimizer.muon_adjust_lr=original,optimizer.muon_nesterov=false";
  all_hold("llama3", {"dp_replicate=2,tp=2,accumulate=2",
                      "pp=2,dp_shard=2,accumulate=4,parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
                      "dp_shard=3" + original + "/cp=2,tp=2" + original});
}

TEST_CASE("layouts of experts equal one rank with Muon: whole, cut, and in shards that end inside of one") {
  all_hold("deepseek_v3", {"dp_shard=2,tp=2,ep=2,etp=2", "dp_shard=3"});
  all_hold("llama4", {"dp_shard=2,ep=2"});
}

TEST_CASE("eager, interpreted and replayed steps of Muon have the same bits") {
  const Place place;
  const Words layout = {"--parallelism.tensor_parallel_degree=2",
                        "--training.mixed_precision_param=bfloat16"};
  place.play(2, "eager", kMuon + layout + steps(2) + kEager);
  place.play(2, "replayed", kMuon + layout + steps(2));
  place.play(2, "interpreted", kMuon + layout + steps(2) + kInterpreter);
  check_equal(place, "eager", "replayed", 2);
  check_equal(place, "eager", "interpreted", 2);
}

TEST_CASE(
    "a run of Muon with its state in bf16 resumes to the same bits, and other optimizers of its matrices are "
    "refused unless the moments are reset") {
  const Place place;
  const Words flags =
      kMuon + Words{"--training.dtype=bfloat16", "--checkpoint.enable=true", "--checkpoint.interval=2"};
  const ProgramResult straight = place.play(2, "straight", flags);
  CHECK_THAT(straight.output,
             ContainsSubstring("0.1 on 21 tensors; Muon on 14 tensors, AdamW on the others"));
  place.play(2, "run", flags + steps(2));
  const auto refused = [&](const std::string& flag, const std::string& why) {
    const ProgramResult run = rondo(place.launch(2, "run", flags + Words{flag}));
    INFO(run.output);
    CHECK(run.exit_code == 5);
    CHECK_THAT(run.output, ContainsSubstring(why));
  };
  const std::string adamw = "--optimizer.name=AdamW";
  refused(adamw, "set optimizer.name = \"Muon\" (here \"AdamW\"), or reset the optimizer");
  refused(
      "--optimizer.parameter_groups=*.wk: optimizer=AdamW",
      "holds the moments of another optimizer for some matrices; set optimizer.parameter_groups = [] (here "
      "[\"*.wk: optimizer=AdamW\"]), or reset the optimizer");
  place.play(2, "run", flags);
  check_equal(place, "straight", "run", 4);
  check_same_tensors(place / "straight/checkpoint/step-4", place / "run/checkpoint/step-4");
  const ProgramResult reset =
      place.play(2, "run", flags + steps(5) + Words{adamw, "--checkpoint.exclude_from_loading=optimizer"});
  CHECK_THAT(reset.output, ContainsSubstring("reset"));
}

}  // namespace
}  // namespace rondo
