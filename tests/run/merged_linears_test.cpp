// Runs whose linear layers of one input are one product: the interpreter's bits in a replay, the numbers of a
// run with a product for each, and what the log says. A small model on many tokens is where the CPU gains by
// it.
#include "tests/run/deepseek.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

const Words kMany = {"--compile.numerics=rounds", "--training.steps=3",
                     "--training.seq_len=128",    "--training.local_batch_size=2",
                     "--validation.enable=false", "--metrics.verbosity=detailed"};
const Words kTensor = {"--parallelism.tensor_parallel_degree=2"};

void check_merged(const Place& place, const Words& flags, const std::string& said) {
  const Words all = kMany + flags;
  place.play(2, "apart", all + Words{"--compile.disable_passes=merge_linears"});
  const ProgramResult run = place.play(2, "merged", all);
  INFO(run.output);
  CHECK_THAT(run.output, ContainsSubstring("train_step: merged " + said));
  place.play(2, "interpreted", all + kInterpreter);
  const ProgramResult same = place.compare("merged", "interpreted");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  const ProgramResult near = place.compare("apart", "merged", {"--tolerance", "1e-5"});
  INFO(near.output);
  CHECK(near.exit_code == 0);
}

TEST_CASE("ranks that shard or share Llama have the numbers of a product for each linear layer") {
  const Words heads = {"--model.dim=32", "--model.n_heads=8", "--model.n_kv_heads=2",
                       "--model.vocab_size=260"};
  check_merged(Place(), heads, "6 linear layers into 2");
  check_merged(Place(), heads + kTensor, "6 linear layers into 2");
}

TEST_CASE("ranks that shard or share DeepSeek have the numbers of a product for each linear layer") {
  const Place place(kTinyDeepSeek);
  check_merged(place, {}, "4 linear layers into 2");
  check_merged(place, kTensor + Words{"--model.n_heads=4", "--model.vocab_size=260"},
               "4 linear layers into 2");
}

}  // namespace
}  // namespace rondo
