// Tests both models in every layout up to 8 ranks: eager and replayed steps have the same bits, and
// the weights, the first loss and the first gradients equal those of 1 rank. Label `full`.
#include "tests/run/checkpoints.h"
#include "tests/run/layouts.h"

namespace rondo {
namespace {

// Layouts by (replicate, shard, tensor).
const std::vector<Layout> kDense = {{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}, {2, 1, 1}};
const std::vector<Layout> kOfExperts = {{1, 4, 1, 2, "static"}, {1, 4, 1, 2, "standard"},
                                        {1, 2, 2, 2, "static"}, {1, 2, 2, 2, "standard"},
                                        {1, 4, 2, 4, "static"}, {1, 4, 2, 4, "standard"}};

const std::string kLlama;  // the default of Place
Place place_of(const std::string& model) { return model.empty() ? Place() : Place(model); }
Words heads_of(const std::string& model) {
  return model.empty() ? kFourHeads + Words{"--model.n_kv_heads=4"} : kFourHeads;
}

void replay_layouts(const std::string& model, const std::vector<Layout>& layouts) {
  for (const Layout& layout : layouts) {
    INFO(layout.name());
    const Place place = place_of(model);
    const Point point{layout.ranks(), false, false, false, true};
    const Words flags = layout.flags() + heads_of(model);
    run_at(place, point, "eager", kEager + flags);
    run_at(place, point, "replay", kReplay + flags);
    check_equal(place, "eager", "replay");
  }
}

TEST_CASE("every layout of Llama 3 has the same bits eager and replayed") { replay_layouts(kLlama, kDense); }
TEST_CASE("every layout of DeepSeek-V3 without expert parallelism has the same bits eager and replayed") {
  replay_layouts(kTinyDeepSeek, kDense);
}
TEST_CASE("every layout of DeepSeek-V3 with expert parallelism has the same bits eager and replayed") {
  replay_layouts(kTinyDeepSeek, kOfExperts);
}

// --- against 1 rank ---

constexpr int kGlobalBatch = 16;
// Relative to the largest element of the tensor. The largest measured difference is 1.2e-6.
constexpr double kGradientTolerance = 1e-5;

void begin_and_step(const Place& place, const Layout& layout, const std::string& name, const Words& heads,
                    int global_batch = kGlobalBatch) {
  const Words flags = layout.flags() + heads + Words{"--checkpoint.enable=true"};
  place.play(layout.ranks(), name + " seed", flags + Words{"--checkpoint.create_seed_checkpoint=true"});
  place.play(layout.ranks(), name,
             flags + Words{"--training.steps=1", "--lr_scheduler.warmup_steps=0", "--validation.enable=false",
                           "--training.document_attention=true",
                           fmt::format("--training.global_batch_size={}", global_batch),
                           fmt::format("--training.local_batch_size={}", global_batch / layout.data())});
}

// Returns how many choices of an expert, over all routers, differ in the first step. Rounding
// changes a choice between two experts with nearly equal scores. Choices that change places are
// not counted.
std::int64_t routing_flips(const Place& place, const std::string& a, const std::string& b) {
  const auto loads = [&](const std::string& run) {
    const auto lines = lines_of(place / run / "expert_load.jsonl");
    REQUIRE(lines.size() == 1);
    return nlohmann::json::parse(lines[0])["tokens_per_expert"];
  };
  const nlohmann::json left = loads(a), right = loads(b);
  REQUIRE(left.size() == right.size());
  std::int64_t apart = 0;
  for (const auto& [router, tokens] : left.items())
    for (std::size_t expert = 0; expert < tokens.size(); ++expert)
      apart += std::abs(tokens[expert].get<std::int64_t>() - right[router][expert].get<std::int64_t>());
  return apart / 2;
}

// The first average of gradients is a fixed fraction of the first gradient, after clipping.
void check_gradients(const Place& place, const std::string& name, std::int64_t flips) {
  const Difference apart = largest_difference(place / "one/checkpoint/step-1",
                                              place / name / "checkpoint/step-1", "optimizer/exp_avg.");
  CHECK(apart.compared > 20);
  WARN(fmt::format("{}: gradients are up to {:.1e} apart ({}), {} choices of experts are others", name,
                   apart.relative, apart.tensor, flips));
  if (flips == 0) CHECK(apart.relative < kGradientTolerance);
}

void follow_one_rank(const std::string& model, const std::vector<Layout>& layouts) {
  const Place place = place_of(model);
  const Words heads = heads_of(model);
  begin_and_step(place, {}, "one", heads);
  for (const Layout& layout : layouts) {
    const std::string name = layout.name();
    INFO(name);
    begin_and_step(place, layout, name, heads);
    CHECK(check_same_tensors(place / "one seed/checkpoint/step-0",
                             place / (name + " seed") / "checkpoint/step-0") > 20);
    const ProgramResult compared = place.compare("one", name, {"--tolerance", "1e-5"});
    INFO(compared.output);
    CHECK(compared.exit_code == 0);
    check_gradients(place, name, model.empty() ? 0 : routing_flips(place, "one", name));
  }
}

TEST_CASE("Llama 3 has the weights and first gradients of 1 rank in every layout") {
  follow_one_rank(kLlama, kDense);
}
TEST_CASE("DeepSeek-V3 without expert parallelism has the weights and first gradients of 1 rank") {
  follow_one_rank(kTinyDeepSeek, kDense);
}
TEST_CASE("DeepSeek-V3 with expert parallelism has the weights and first gradients of 1 rank") {
  follow_one_rank(kTinyDeepSeek, kOfExperts);
}

// Checks that the tolerance detects a lost sequence.
TEST_CASE("a batch smaller by one sequence has gradients far outside the tolerance") {
  for (const std::string& model : {kLlama, kTinyDeepSeek}) {
    const Place place = place_of(model);
    begin_and_step(place, {}, "16 sequences", heads_of(model));
    begin_and_step(place, {}, "15 sequences", heads_of(model), kGlobalBatch - 1);
    const Difference apart =
        largest_difference(place / "16 sequences/checkpoint/step-1", place / "15 sequences/checkpoint/step-1",
                           "optimizer/exp_avg.");
    CHECK(apart.relative > 1000 * kGradientTolerance);
  }
}

}  // namespace
}  // namespace rondo
