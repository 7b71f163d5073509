// Runs whose matrices are quantized before they are gathered have the bits of runs that quantize
// behind the gather: every recipe in every layout up to 8 ranks. Label `full`.
#include "tests/run/layouts.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

// Sizes other than the vocabulary are multiples of 128 on each rank of tp 2. Shards have whole
// blocks with 2 ranks, whole rows with 8, and padding with 3.
const Words kSizes = {
    "--model.dim=256",        "--model.n_heads=4",          "--model.n_kv_heads=4",
    "--model.head_dim=64",    "--model.ffn_hidden_dim=256", "--training.seq_len=128",
    "--model.vocab_size=288", "--validation.enable=false",
};
using Layouts = std::vector<Layout>;
const Layouts kLayouts = {{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}, {2, 2, 2}};

Words in_float8(const char* recipe) {
  return {"--model.converters=float8", "--quantize.linear.float8.emulate=true",
          std::string("--quantize.linear.float8.recipe_name=") + recipe};
}

void quantize_before_gathers(const char* recipe, const Layouts& layouts = kLayouts) {
  for (const Layout& layout : layouts) {
    INFO(recipe << ", " << layout.name());
    const Place place;
    const Point point{layout.ranks(), true, false, false, true};
    const Words flags = kSizes + layout.flags() + in_float8(recipe);
    run_at(place, point, "eager", kEager + flags);
    for (const char* executor : {"interpreter", "replay"})
      for (const char* policy : {"none", "full"}) {
        const std::string name = std::string(executor) + " " + policy;
        run_at(place, point, name,
               flags + Words{std::string("--compile.executor=") + executor,
                             std::string("--compile.memory_policy=") + policy});
        check_equal(place, "eager", name);
      }
    const std::filesystem::path graphs = place / "replay full" / "graph";
    const bool accumulates = std::filesystem::exists(graphs / "accumulate.ir");
    CHECK_THAT(text_of(graphs / (accumulates ? "accumulate.ir" : "train_step.ir")),
               ContainsSubstring(" by quantize_before_gather"));
  }
}

TEST_CASE("quantizing before a gather has the bits of quantizing behind it, with a scale per matrix") {
  quantize_before_gathers("tensorwise");
  quantize_before_gathers("tensorwise", {{1, 3, 1}, {1, 8, 1}});
}
TEST_CASE("quantizing before a gather has the bits of quantizing behind it, with scales of rows") {
  quantize_before_gathers("rowwise");
  quantize_before_gathers("rowwise", {{1, 8, 1}});
  quantize_before_gathers("rowwise_with_gw_hp");
}
TEST_CASE("quantizing before a gather has the bits of quantizing behind it, with scales of blocks") {
  quantize_before_gathers("blockwise");
}

TEST_CASE("gathers of float8 change no bit of accumulation, resharding and buckets by size") {
  const Words flags = kSizes + in_float8("tensorwise");
  climb({4, true, true, true, false}, flags + Layout{1, 2, 2}.flags());
  climb({4, false, true, false, false},
        flags + Layout{1, 2, 2}.flags() + Words{"--parallelism.fsdp_reshard_after_forward=always"});
  climb({4, true, false, false, false},
        flags + Layout{1, 4, 1}.flags() + Words{"--compile.passes=default,auto_bucketing"});
}

}  // namespace
}  // namespace rondo
