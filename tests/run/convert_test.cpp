// Tests the export of weights to a Hugging Face folder, and their import.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/run/checkpoints.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

const Words kSavesWeights = {"--checkpoint.enable=true", "--training.steps=4",
                             "--lr_scheduler.total_steps=20"};

TEST_CASE("weights return from a Hugging Face folder bit for bit") {
  const Place place;
  place.play(3, "run", kSavesWeights + Words{"--checkpoint.last_save_in_hf=true"});
  const fs::path saved = place / "run/checkpoint/step-4", exported = place / "run/checkpoint/step-4-hf";
  const ProgramResult back = must_end_well({"convert", exported.string(), (place / "back").string()});
  CHECK(back.output == (place / "back/step-0").string() + "\n");
  CHECK(check_same_tensors(saved, place / "back/step-0", "model/") == 21);

  // After one rounding, bf16 weights are exported and imported unchanged.
  const auto path = [&](const char* name) { return (place / name).string(); };
  must_end_well({"convert", path("run"), path("bf16"), "--dtype=bfloat16", "--shard-size=100K"});
  CHECK(fs::exists(place / "bf16/model.safetensors.index.json"));
  must_end_well({"convert", path("bf16"), path("bf16_checkpoint")});
  must_end_well({"convert", path("bf16_checkpoint"), path("bf16_again"), "--dtype=bfloat16",
                 "--shard-size=100K", "--tokenizer=bytes"});
  for (const auto& entry : fs::directory_iterator(place / "bf16")) {
    INFO(entry.path().filename().string());
    CHECK(text_of(entry.path()) == text_of(place / "bf16_again" / entry.path().filename().string()));
  }
}

TEST_CASE("a run that starts from a Hugging Face folder has its weights, on any number of ranks") {
  const Place place;
  place.play(2, "run", kSavesWeights + Words{"--checkpoint.last_save_in_hf=true"});
  const std::string checkpoint = (place / "run/checkpoint/step-4").string();
  const Words batch = {"--training.local_batch_size=1", "--training.global_batch_size=6"};
  place.play(3, "from_checkpoint",
             kSavesWeights + batch + Words{"--checkpoint.initial_load_path=" + checkpoint});
  place.play(3, "from_folder",
             kSavesWeights + batch +
                 Words{"--checkpoint.initial_load_in_hf=true", "--training.tokenizer=bytes",
                       "--checkpoint.initial_load_path=" + checkpoint + "-hf"});
  const ProgramResult compared = place.compare("from_checkpoint", "from_folder");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
  CHECK(place.metrics("from_folder")[0]["loss"] < place.metrics("run")[0]["loss"]);
}

TEST_CASE("a Hugging Face folder of another model is refused with the keys to set") {
  const Place place;
  place.play(2, "run", kSavesWeights + Words{"--checkpoint.last_save_in_hf=true"});
  const ProgramResult refused = rondo(place.launch(
      2, "other",
      kSavesWeights + Words{"--model.rope_theta=10000", "--model.n_layers=1",
                            "--checkpoint.initial_load_in_hf=true",
                            "--model.hf_assets_path=" + (place / "run/checkpoint/step-4-hf").string(),
                            "--training.tokenizer=bytes"}));
  INFO(refused.output);
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.output, ContainsSubstring("is of another model than this run's; set model.n_layers = 2 "
                                               "(here 1), model.rope_theta = 500000.0 (here 10000.0)"));
  const ProgramResult plain = rondo(place.train(
      "plain", kSavesWeights +
                   Words{"--checkpoint.initial_load_in_hf=true", "--training.tokenizer=bytes",
                         "--checkpoint.initial_load_in_hf_quantized=true",
                         "--checkpoint.initial_load_path=" + (place / "run/checkpoint/step-4-hf").string()}));
  INFO(plain.output);
  CHECK(plain.exit_code == 5);
  CHECK_THAT(plain.output, ContainsSubstring("has no quantization_config in its config.json; set "
                                             "checkpoint.initial_load_in_hf_quantized = false"));
}

TEST_CASE(
    "the checkpoints of a run are found by its own configuration, and no other configuration "
    "counts") {
  const Place place;
  REQUIRE(rondo(place.train("run", {"--training.steps=1", "--checkpoint.enable=true",
                                    "--checkpoint.folder=ck", "--validation.enable=false"}))
              .exit_code == 0);
  const std::string run = (place / "run").string();
  CHECK(rondo({"convert", run, (place / "to").string()}).exit_code == 0);
  CHECK_THAT(rondo({"checkpoint", "ls", run}).output, ContainsSubstring("step-1"));

  fs::create_directory(place / "other");
  fs::rename(place / "run/ck", place / "other/ck");
  write_text(place / "other/config.toml", "[foo]\nx = 1\n");
  const ProgramResult alone =
      rondo({"convert", (place / "other/ck/step-1").string(), (place / "to2").string()});
  INFO(alone.output);
  CHECK(alone.exit_code == 0);
}

TEST_CASE("convert reports what it cannot do") {
  const Place place;
  const auto refused = [](const Words& words, int code, const std::string& why) {
    const ProgramResult run = rondo(Words{"convert"} + words);
    INFO(run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output, ContainsSubstring(why));
  };
  fs::create_directory(place / "empty");
  refused({}, 2, "convert: FROM is missing");
  refused({(place / "empty").string(), (place / "to").string()}, 5, "has no valid checkpoint");
  refused({(place / "nowhere").string(), (place / "to").string()}, 5, "nowhere is not a folder");
  refused({(place / "empty").string(), (place / "to").string(), "--dtype=int8"}, 2,
          "must be float32, float16 or bfloat16");
  refused({(place / "empty").string(), (place / "to").string(), "--detype=int8"}, 2, "did you mean --dtype");
}

}  // namespace
}  // namespace rondo
