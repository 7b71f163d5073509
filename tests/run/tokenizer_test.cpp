// Tests text with a tokenizer.json, from the first step to the export.
#include <catch2/catch_test_macros.hpp>

#include "tests/datasets/tokenizer/small_tokenizer.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a run tokenizes its text once, as the command does, and its exports contain the tokenizer") {
  const Place place;
  const fs::path tokenizer = place / "tokenizer";
  write_text(tokenizer / "tokenizer.json", small_tokenizer().dump());
  write_text(tokenizer / "tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  const Words flags = {"--training.tokenizer=" + tokenizer.string(), "--model.vocab_size=264",
                       "--checkpoint.enable=true", "--checkpoint.last_save_in_hf=true", "--training.steps=3"};
  must_end_well(place.launch(2, "text", flags));
  std::vector<fs::path> cached;
  for (const auto& entry : fs::directory_iterator(place / ".rondo-tokens"))
    if (entry.path().extension() == ".tokens") cached.push_back(entry.path());
  REQUIRE(cached.size() == 1);

  const std::string tokens = (place / "corpus.tokens").string();
  must_end_well({"data", "tokenize", "--tokenizer=" + tokenizer.string(),
                 "--input=" + (place / "corpus").string(), "--output=" + tokens});
  CHECK(text_of(cached[0]) == text_of(tokens));
  must_end_well(place.launch(2, "tokens", flags + Words{"--training.dataset_path=" + tokens}));
  const ProgramResult compared = place.compare("text", "tokens");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);

  must_end_well({"convert", (place / "text").string(), (place / "converted").string()});
  for (const fs::path& exported : {place / "text/checkpoint/step-3-hf", place / "converted"})
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      CHECK(text_of(exported / file) == text_of(tokenizer / file));
  must_end_well({"generate", (place / "converted").string(), "--prompt=hello", "--max-new-tokens=2"});
}

}  // namespace
}  // namespace rondo
