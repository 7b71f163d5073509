// Tests text with a tokenizer.json, from the first step to the export.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/datasets/tokenizer/small_tokenizer.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a run tokenizes its text once, as the command does, and its exports contain the tokenizer") {
  const Place place;
  const fs::path tokenizer = place / "tokenizer";
  write_text(tokenizer / "tokenizer.json", small_tokenizer().dump());
  write_text(tokenizer / "tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  const Words flags = {"--training.tokenizer=" + tokenizer.string(), "--model.vocab_size=264",
                       "--checkpoint.enable=true", "--checkpoint.last_save_in_hf=true", "--training.steps=3"};
  place.play(2, "text", flags);
  std::vector<fs::path> cached;
  for (const auto& entry : fs::directory_iterator(place / ".rondo-tokens"))
    if (entry.path().extension() == ".tokens") cached.push_back(entry.path());
  REQUIRE(cached.size() == 1);

  const std::string tokens = (place / "corpus.tokens").string();
  must_end_well({"data", "tokenize", "--tokenizer=" + tokenizer.string(),
                 "--input=" + (place / "corpus").string(), "--output=" + tokens});
  CHECK(text_of(cached[0]) == text_of(tokens));
  place.play(2, "tokens", flags + Words{"--training.dataset_path=" + tokens});
  const ProgramResult compared = place.compare("text", "tokens");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);

  must_end_well({"convert", (place / "text").string(), (place / "converted").string()});
  for (const fs::path& exported : {place / "text/checkpoint/step-3-hf", place / "converted"}) {
    CHECK(text_of(exported / "tokenizer.json") == text_of(tokenizer / "tokenizer.json"));
    CHECK(nlohmann::json::parse(text_of(exported / "tokenizer_config.json")) ==
          nlohmann::json{{"eos_token", "<|end|>"},
                         {"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"add_prefix_space", false}});
  }
  must_end_well({"generate", (place / "converted").string(), "--prompt=hello", "--max-new-tokens=2"});

  nlohmann::json larger = small_tokenizer();
  for (const int id : {262, 263, 264})
    larger["added_tokens"].push_back(added_token("<|" + std::to_string(id) + "|>", id));
  write_text(place / "larger/tokenizer.json", larger.dump());
  const ProgramResult refused = rondo({"convert", (place / "text").string(), (place / "refused").string(),
                                       "--tokenizer=" + (place / "larger").string()});
  CHECK(refused.exit_code == 4);
  CHECK_THAT(refused.output,
             ContainsSubstring("tokenizer has 265 token ids, but the model's vocabulary has 264"));
  CHECK_FALSE(fs::exists(place / "refused"));
}

TEST_CASE("tokenizer and data in the shape of torchtitan's test assets train as its files name them") {
  const Place place;
  const fs::path assets = place / "tests/assets", tokenizer = assets / "tokenizer";
  write_text(tokenizer / "tokenizer.json", small_tokenizer().dump());
  write_text(tokenizer / "tokenizer_config.json",
             R"({"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast",
                 "added_tokens_decoder": {"263": {"content": "<|end|>", "special": true}}})");
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += nlohmann::json{{"text", fmt::format("hello {} hello's hell\n", i)},
                            {"timestamp", "2019-04-25T12:57:54Z"},
                            {"url", "https://example.org"}}
                 .dump() +
             "\n";
  write_text(assets / "c4_test/data.json", lines);
  const Words sizes = steps(2) + Words{"--model.vocab_size=264", "--validation.enable=false"};
  place.play(1, "named",
             sizes + Words{"--model.hf_assets_path=" + tokenizer.string(),
                           "--training.dataset_path=", "--training.dataset=c4_test",
                           "--training.datasets=c4_test=" + (assets / "c4_test").string()});
  place.play(1, "path",
             sizes + Words{"--training.tokenizer=" + tokenizer.string(),
                           "--training.dataset_path=" + (assets / "c4_test/data.json").string()});
  const ProgramResult compared = place.compare("named", "path");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

}  // namespace
}  // namespace rondo
