// Tests what a start says about the recipe that it continues: parts that are reset, settings in
// effect, learning rate, data.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/checkpoints.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

const Words kSaving = {"--checkpoint.enable=true", "--checkpoint.interval=5", "--lr_scheduler.total_steps=20",
                       "--validation.enable=false"};

// Starts a run from all state of a checkpoint.
Words from(const fs::path& checkpoint) {
  return {"--checkpoint.initial_load_path=" + checkpoint.string(),
          "--checkpoint.initial_load_model_only=false"};
}

TEST_CASE("an optimizer that one run has reset is reset again by a run that starts from it") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=optimizer"};
  place.play(1, "a", steps(3) + kSaving);
  place.play(1, "b", steps(5) + kSaving + from(place / "a/checkpoint/step-3") + excluded);
  const ProgramResult c =
      place.play(1, "c", steps(6) + kSaving + from(place / "b/checkpoint/step-5") + excluded);
  CHECK_THAT(c.output, ContainsSubstring("exclude_from_loading resets optimizer"));
  place.play(1, "d", steps(6) + kSaving + from(place / "b/checkpoint/step-5"));
  const ProgramResult compared = place.compare("c", "d");
  INFO(compared.output);
  CHECK(compared.exit_code == 1);
}

TEST_CASE("a reset of the data is repeated when the data changes again, and no other reset with it") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=dataloader,lr_scheduler"};
  place.play(1, "run", steps(3) + kSaving);
  write_text(place / "corpus/more.txt", std::string(300, 'm'));
  place.play(1, "run", steps(5) + kSaving + excluded);
  write_text(place / "corpus/most.txt", std::string(300, 'n'));
  const ProgramResult again = place.play(1, "run", steps(6) + kSaving + excluded);
  CHECK_THAT(again.output, ContainsSubstring("exclude_from_loading resets dataloader\n") &&
                               ContainsSubstring("this run has reset lr_scheduler at step 3 already"));
}

TEST_CASE("a run that named a part at its first start does not reset it when it resumes") {
  const Place place;
  const Words excluded = {"--checkpoint.exclude_from_loading=optimizer"};
  place.play(1, "straight", steps(6) + kSaving);
  place.play(1, "stopped", steps(3) + kSaving + excluded);
  place.play(1, "stopped", steps(6) + kSaving + excluded);
  const ProgramResult compared = place.compare("straight", "stopped");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

}  // namespace
}  // namespace rondo
