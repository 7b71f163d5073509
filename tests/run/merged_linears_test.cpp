// Tests runs that merge linear layers of one input into one product: a replay has the interpreter's
// bits and the numbers of a run with separate products, and the log reports it. The CPU gains by it
// in a model with small products.
#include "tests/run/deepseek.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

const Words kFew = {"--compile.numerics=rounds", "--training.steps=3",
                    "--training.seq_len=16",     "--training.local_batch_size=1",
                    "--validation.enable=false", "--metrics.verbosity=detailed"};
// Casts gradients of weights, so that they may be slices.
const Words kTensor = {"--parallelism.tensor_parallel_degree=2", "--training.mixed_precision_param=bfloat16"};

void check_merged(const Place& place, const Words& flags, const std::string& said, const char* tolerance) {
  const Words all = kFew + flags;
  const std::string output =
      check_rounding(place, 2, all + Words{"--compile.disable_passes=merge_linears"}, all, tolerance);
  CHECK_THAT(output, ContainsSubstring("train_step: merged " + said));
}

TEST_CASE("sharded and tensor-parallel Llama has the numbers of separate products") {
  const Words heads = {"--model.dim=32", "--model.n_heads=8", "--model.n_kv_heads=2",
                       "--model.vocab_size=260"};
  check_merged(Place(), heads, "6 linear layers into 2", "1e-5");
  check_merged(Place(), heads + kTensor, "10 linear layers into 4", "4e-3");
}

TEST_CASE("sharded and tensor-parallel DeepSeek has the numbers of separate products") {
  const Place place(kTinyDeepSeek);
  check_merged(place, {}, "4 linear layers into 2", "1e-5");
  check_merged(place, kTensor + Words{"--model.n_heads=4", "--model.vocab_size=260"},
               "6 linear layers into 3", "4e-3");
}

}  // namespace
}  // namespace rondo
