// Tests what a start says about the recipe that it continues: parts that are reset, settings in
// effect, learning rate, data.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "checkpoint/committed.h"
#include "tests/run/checkpoints.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

const Words kSavesEveryFive = {"--checkpoint.enable=true", "--checkpoint.interval=5",
                               "--lr_scheduler.total_steps=20", "--validation.enable=false"};

// Starts a run from all state of a checkpoint.
Words all_state_of(const fs::path& checkpoint) {
  return {"--checkpoint.initial_load_path=" + checkpoint.string(),
          "--checkpoint.initial_load_model_only=false"};
}

TEST_CASE("an optimizer that one run has reset is reset again by a run that starts from it") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=optimizer"};
  place.play(1, "a", steps(3) + kSavesEveryFive);
  place.play(1, "b", steps(5) + kSavesEveryFive + all_state_of(place / "a/checkpoint/step-3") + excluded);
  const ProgramResult c =
      place.play(1, "c", steps(6) + kSavesEveryFive + all_state_of(place / "b/checkpoint/step-5") + excluded);
  CHECK_THAT(c.output, ContainsSubstring("exclude_from_loading resets optimizer"));
  place.play(1, "d", steps(6) + kSavesEveryFive + all_state_of(place / "b/checkpoint/step-5"));
  const ProgramResult compared = place.compare("c", "d");
  INFO(compared.output);
  CHECK(compared.exit_code == 1);
}

TEST_CASE("no run trains beyond its last step, from its own checkpoint or another run's") {
  const Place place;
  place.play(1, "a", steps(4) + kSavesEveryFive);
  const ProgramResult other =
      rondo(place.train("b", steps(3) + kSavesEveryFive + all_state_of(place / "a/checkpoint/step-4")));
  INFO(other.output);
  CHECK(other.exit_code == 5);
  CHECK_THAT(other.output, ContainsSubstring("is of step 4, and training.steps = 3: raise it"));
  const ProgramResult own =
      place.play(1, "a", steps(3) + kSavesEveryFive + Words{"--checkpoint.last_save_in_hf=true"});
  CHECK_THAT(own.output, ContainsSubstring("done after step 4 of 3"));
  CHECK(fs::exists(place / "a/checkpoint/step-4-hf"));
}

TEST_CASE("a reset of the data is repeated when the data changes again, and no other reset with it") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=dataloader,lr_scheduler"};
  place.play(1, "run", steps(3) + kSavesEveryFive);
  write_text(place / "corpus/more.txt", std::string(300, 'm'));
  place.play(1, "run", steps(5) + kSavesEveryFive + excluded);
  write_text(place / "corpus/most.txt", std::string(300, 'n'));
  const ProgramResult again = place.play(1, "run", steps(6) + kSavesEveryFive + excluded);
  CHECK_THAT(again.output, ContainsSubstring("exclude_from_loading resets dataloader\n") &&
                               ContainsSubstring("this run has reset lr_scheduler at step 3 already"));
}

TEST_CASE("a run that named a part at its first start does not reset it when it resumes") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=optimizer"};
  place.play(1, "straight", steps(6) + kSavesEveryFive);
  place.play(1, "stopped", steps(3) + kSavesEveryFive + excluded);
  place.play(1, "stopped", steps(6) + kSavesEveryFive + excluded);
  const ProgramResult compared = place.compare("straight", "stopped");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("another number of ranks changes the global batch only where it is told to") {
  const Place place;
  place.play(1, "run", steps(3) + kSavesEveryFive);  // 2 sequences of 32 tokens a step
  const auto on_two = [&](const Words& more) {
    return rondo(place.launch(2, "run", steps(6) + kSavesEveryFive + more));
  };
  const ProgramResult refused = on_two({});
  INFO(refused.output);
  CHECK(refused.exit_code == 3);
  CHECK_THAT(refused.output,
             ContainsSubstring("take 4 sequences (128 tokens) a step, but ") &&
                 ContainsSubstring("had 2 sequences (64 tokens) on 1. Set --training.global_batch_size=2 "
                                   "--training.local_batch_size=1 to keep the batch, or "
                                   "--training.global_batch_size=4 to change it"));
  fs::copy(place / "run", place / "kept", fs::copy_options::recursive);
  const ProgramResult kept = must_end_well(place.launch(
      2, "kept",
      steps(6) + kSavesEveryFive + Words{"--training.global_batch_size=2", "--training.local_batch_size=1"}));
  CHECK(kept.output.find("global batch") == std::string::npos);
  const ProgramResult changed = on_two({"--training.global_batch_size=4"});
  INFO(changed.output);
  CHECK(changed.exit_code == 0);
  CHECK_THAT(changed.output,
             ContainsSubstring(
                 "global batch: 2 sequences (64 tokens) in the checkpoint, 4 sequences (128 tokens) now") &&
                 ContainsSubstring("this run takes 576 tokens"));  // 3 * 64 + 3 * 128
  const ProgramResult compared = place.compare("kept", "run");
  CHECK_THAT(compared.output, ContainsSubstring("tokens a step: A 64, B 128"));
}

TEST_CASE("a start from all state or from the weights of another run says what is different") {
  const Place place;
  const Words other = {"--optimizer.lr=0.1", "--training.local_batch_size=1",
                       "--optimizer.parameter_groups=*norm*: weight_decay=0"};
  place.play(1, "a", steps(3) + kSavesEveryFive);
  const fs::path checkpoint = place / "a/checkpoint/step-3";
  const ProgramResult state =
      place.play(1, "b", steps(5) + kSavesEveryFive + all_state_of(checkpoint) + other);
  const ProgramResult weights = place.play(
      1, "c",
      steps(2) + kSavesEveryFive + Words{"--checkpoint.initial_load_path=" + checkpoint.string()} + other);
  for (const ProgramResult& start : {state, weights})
    CHECK_THAT(
        start.output,
        ContainsSubstring("optimizer.lr: 0.002 in the checkpoint, 0.1 now") &&
            ContainsSubstring(
                "global batch: 2 sequences (64 tokens) in the checkpoint, 1 sequence (32 tokens) now") &&
            ContainsSubstring("weight decay: 0.1 on 21 tensors in the checkpoint, 0.1 on 16 tensors, none on "
                              "5 tensors now"));
  CHECK_THAT(state.output, ContainsSubstring("the learning rate of step 4: 0.001889 by the settings"));
}

TEST_CASE("a start says its learning rate and its weight decay, and warns of a learning rate of 0") {
  const Place place;
  const Words saving = {"--checkpoint.enable=true", "--validation.enable=false"};
  const ProgramResult first = place.play(1, "run", steps(4) + saving);
  CHECK_THAT(first.output,
             ContainsSubstring("learning rate: 0.001 at step 1, 0.002 at step 2, 0.001 at step 4; weight "
                               "decay: 0.1 on 21 tensors") &&
                 ContainsSubstring("--training.steps=8 trains on; its learning rate goes from 0.001 at "
                                   "step 4 to 0.001333 at step 5"));
  const ProgramResult longer = place.play(1, "run", steps(8) + saving);
  CHECK_THAT(longer.output,
             ContainsSubstring("learning rate: 0.001 at step 4, 0.001333 at step 5, ") &&
                 ContainsSubstring("the learning rate of step 5: 0 by the settings and the schedule of the "
                                   "checkpoint, 0.001333 now"));
  const ProgramResult without =
      place.play(1, "short", steps(6) + Words{"--lr_scheduler.total_steps=4", "--validation.enable=false"});
  CHECK_THAT(without.output, ContainsSubstring("the learning rate is 0 from step 5 to the last one, 6"));
}

TEST_CASE("data with other content of the same sizes is refused, unless the checkpoint has no hash of it") {
  const Place place;
  place.play(1, "run", steps(3) + kSavesEveryFive);
  std::string text = text_of(place / "corpus/00.txt");
  std::swap(text.front(), text.back());
  write_text(place / "corpus/00.txt", text);
  const ProgramResult refused = rondo(place.train("run", steps(5) + kSavesEveryFive));
  INFO(refused.output);
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.output, ContainsSubstring("same names and sizes have other content"));
  // As an older version saved it.
  const fs::path saved = place / "run/checkpoint/step-3";
  nlohmann::json manifest = nlohmann::json::parse(text_of(saved / "manifest.json"));
  manifest["data"].erase("content");
  manifest["train_state"]["began_anew"] = nlohmann::json::array();
  write_text(saved / "manifest.json", manifest.dump());
  write_text(saved / "COMMITTED", checkpoint::committed_text(manifest.dump()));
  const ProgramResult resumed = must_end_well(place.train("run", steps(5) + kSavesEveryFive));
  CHECK_THAT(resumed.output,
             ContainsSubstring("step-3 has no hash of the data's content, so names, sizes and "
                               "lengths alone were compared"));
}

}  // namespace
}  // namespace rondo
