// Tests runs whose loss is computed in chunks: a replay has the interpreter's bits and the numbers
// of a run with a whole loss, and the log reports it.
#include "tests/run/ladder.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

const Words kInChunks = {"--compile.numerics=rounds", "--compile.loss_chunks=5",
                         "--metrics.verbosity=detailed"};
const Words kEvenVocabulary = {"--model.vocab_size=260"};

// Runs `ranks` ranks for 3 steps.
void check_chunks(int ranks, const Words& flags, const char* tolerance) {
  const Words all = flags + Words{"--training.steps=3", "--validation.freq=3"};
  const std::string output = check_rounding(Place(), ranks, all, all + kInChunks, tolerance);
  CHECK_THAT(output, ContainsSubstring("train_step: logits of 13 of 64 rows at a time") ||
                         ContainsSubstring("accumulate: logits of 13 of 64 rows at a time"));
  CHECK_THAT(output, ContainsSubstring("validate: logits of 4 of 16 rows at a time"));
}

TEST_CASE("one rank has the numbers of the whole loss, with microbatches, too") {
  check_chunks(1, {"--training.global_batch_size=4"}, "1e-5");
}

TEST_CASE("ranks that shard the model have the numbers of the whole loss") {
  check_chunks(2, {}, "1e-5");
  check_chunks(2, {"--training.mixed_precision_param=bfloat16", "--model.tie_embeddings=true"}, "4e-3");
}

TEST_CASE("ranks that share the vocabulary have the numbers of the whole loss") {
  const Words tensor = Words{"--parallelism.tensor_parallel_degree=2"} + kEvenVocabulary;
  check_chunks(2, tensor, "1e-5");
  check_chunks(2, tensor + Words{"--training.mixed_precision_param=bfloat16"}, "4e-3");
}

TEST_CASE("an eager run with its loss in chunks has the bits of a replay without passes that round") {
  const Words all =
      kInChunks + kEvenVocabulary + Words{"--training.steps=3", "--training.mixed_precision_param=bfloat16"};
  for (const char* layout :
       {"--parallelism.tensor_parallel_degree=1", "--parallelism.tensor_parallel_degree=2"}) {
    INFO(layout);
    const Place place;
    place.play(2, "eager", all + Words{layout} + kEager);
    place.play(2, "replay", all + Words{layout, "--compile.disable_passes=merge_linears,fuse_addmm"});
    const ProgramResult same = place.compare("eager", "replay");
    INFO(same.output);
    CHECK(same.exit_code == 0);
  }
}

TEST_CASE("a vocabulary whose shards are padded keeps its loss whole, and the log says so") {
  const Place place;
  const ProgramResult run = place.play(
      2, "padded", kInChunks + Words{"--parallelism.tensor_parallel_degree=2", "--training.steps=2"});
  CHECK_THAT(run.output, ContainsSubstring("train_step: a loss is left whole: its vocabulary is padded"));
}

}  // namespace
}  // namespace rondo
