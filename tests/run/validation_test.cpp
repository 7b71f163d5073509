// Tests that losses are sums over labels, divided once: in validation, in `rondo eval` and in steps
// without labels.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/datasets/token_bytes.h"
#include "tests/run/runs.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

const Words kInDocuments = {"--training.document_attention=true", "--training.dtype=float64"};

double validation_loss(const Place& place, const std::string& run) {
  return place.metrics(run).back().at("validation_loss");
}

// Returns documents of one token: no token of them is a label.
Documents of_one_token(int count) {
  Documents documents;
  for (int i = 0; i < count; ++i) documents.push_back({i % 200});
  return documents;
}

TEST_CASE("a validation is the mean over its labels, for any batches and ranks of the same rows") {
  const Place place;
  const auto validated = [&](int ranks, int batch, int batches) {
    const std::string name = fmt::format("{}-{}-{}", ranks, batch, batches);
    place.play(ranks, name,
               steps(1) + kInDocuments +
                   Words{"--training.global_batch_size=4", "--optimizer.lr=0",
                         fmt::format("--validation.local_batch_size={}", batch),
                         fmt::format("--validation.steps={}", batches)});
    return validation_loss(place, name);
  };
  const double expected = validated(1, 8, 1);
  for (const auto& [ranks, batch, batches] : {std::tuple{1, 2, 4}, {1, 1, 8}, {2, 2, 2}, {2, 1, 4}}) {
    INFO(ranks << " ranks, " << batches << " batches of " << batch);
    CHECK_THAT(validated(ranks, batch, batches), WithinRel(expected, 1e-14));
  }
}

TEST_CASE("eval of a run's checkpoint has the bits of the loss that the run logged, with documents too") {
  const Place place;
  const std::string steps_of_validation = GENERATE("3", "-1");
  place.play(
      1, "run",
      steps(2) + Words{"--training.document_attention=true", "--checkpoint.enable=true",
                       "--validation.local_batch_size=8", "--validation.steps=" + steps_of_validation});
  const auto logged = place.metrics("run").back().at("validation_loss").dump();
  const ProgramResult eval = must_end_well({"eval", (place / "run").string()});
  CHECK_THAT(eval.output, ContainsSubstring("loss " + logged + " "));
}

TEST_CASE("a validation reads its data at most once, and says so") {
  const Place place;
  const Words batches = {"--validation.local_batch_size=16"};
  place.play(1, "whole", steps(1) + batches + Words{"--validation.steps=-1"});
  const ProgramResult capped =
      place.play(1, "capped", steps(1) + batches + Words{"--validation.steps=100000"});
  CHECK_THAT(capped.output,
             ContainsSubstring("steps read its data once, fewer than validation.steps = 100000"));
  CHECK(validation_loss(place, "whole") == validation_loss(place, "capped"));
}

TEST_CASE("a step without labels has a loss and a gradient of 0 and is reported, in every executor") {
  const Place place;
  Documents documents;
  for (int i = 0; i < 6; ++i) {
    const Documents single = of_one_token(64);
    documents.insert(documents.end(), single.begin(), single.end());
    documents.push_back(TokenIds(130, 7 + i));
  }
  write_text(place / "mixed.tokens", rondo_bytes(documents));
  const auto play = [&](int ranks, const std::string& name, const Words& more) {
    return place.play(ranks, name,
                      steps(6) + more +
                          Words{"--training.dataset_path=" + (place / "mixed.tokens").string(),
                                "--training.document_attention=true", "--training.shuffle=false",
                                "--validation.enable=false"});
  };
  const ProgramResult replay = play(1, "replay", {});
  CHECK_THAT(replay.output, ContainsSubstring("step 1 has no label, so its loss and its gradients are 0"));
  const auto metrics = place.metrics("replay");
  CHECK(metrics[0]["loss"] == 0);
  CHECK(metrics[0]["grad_norm"] == 0);
  CHECK(metrics[1]["loss"] > 1);
  play(1, "interpreter", {"--compile.executor=interpreter"});
  play(1, "eager", {"--compile.enable=false"});
  for (const char* other : {"interpreter", "eager"}) CHECK(place.compare("replay", other).exit_code == 0);
  play(1, "chunks", {"--compile.numerics=rounds", "--compile.loss_chunks=2"});
  CHECK(place.metrics("chunks")[0]["loss"] == 0);
  play(2, "ranks", {"--training.local_batch_size=1"});
  CHECK(place.metrics("ranks")[0]["loss"] == 0);
}

TEST_CASE("validation data without labels is no loss: the run skips it and eval refuses it") {
  const Place place;
  write_text(place / "single.tokens", rondo_bytes(of_one_token(200)));
  const Words validation = {"--training.document_attention=true", "--checkpoint.enable=true",
                            "--validation.dataset_path=" + (place / "single.tokens").string()};
  const ProgramResult run = place.play(1, "run", steps(2) + validation);
  CHECK_THAT(run.output, ContainsSubstring("validation is skipped: no row of it has a label"));
  REQUIRE(place.metrics("run").size() == 2);
  CHECK_FALSE(place.metrics("run")[1].contains("validation_loss"));
  const ProgramResult eval = rondo({"eval", (place / "run").string()});
  INFO(eval.output);
  CHECK(eval.exit_code == 4);
  CHECK_THAT(eval.output, ContainsSubstring("has a label"));
}

TEST_CASE("a run validates after its last step") {
  const Place place;
  const ProgramResult run = place.play(1, "run", steps(3));
  CHECK(place.metrics("run")[2].contains("validation_loss"));
  CHECK_THAT(run.output, ContainsSubstring("step 3  validation loss "));
}

}  // namespace
}  // namespace rondo
