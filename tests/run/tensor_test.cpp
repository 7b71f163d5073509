// Tests tensor parallelism: the ladder, the same numbers as other layouts, and refused layouts. No
// degree divides the tiny model's vocabulary of 259, so its last part is padded.
#include "tests/run/deepseek.h"

namespace rondo {
namespace {

// Tensor-parallel ranks, and their replicas.
struct Shares {
  int tensor, replicate = 1, shard = 1;
  int ranks() const { return tensor * data(); }
  int data() const { return replicate * shard; }
  std::string name() const { return fmt::format("tensor {}, {} x {}", tensor, replicate, shard); }
  Words flags() const {
    return Words{fmt::format("--parallelism.tensor_parallel_degree={}", tensor)} +
           Grid{replicate, shard}.flags();
  }
};

const Words kFourKvHeads = {"--model.n_kv_heads=4"};

TEST_CASE("tensor parallelism has the same bits eager, interpreted and replayed") {
  climb({2, false, false, false, true}, Shares{2}.flags());
  climb({2, true, true, true, false}, Shares{2}.flags());
  climb({4, false, false, false, true}, Shares{2, 1, 2}.flags());
  climb({4, true, true, false, false}, Shares{2, 2, 1}.flags());
}

TEST_CASE("with tensor parallelism every policy and every list of passes has the bits of the eager step") {
  const Place place;
  const Point point{4, true, false, false, true};
  const Words flags = Shares{2, 1, 2}.flags();
  run_at(place, point, "eager", kEager + flags);
  for (const char* policy : {"none", "default", "full", "min_cut"}) {
    run_at(place, point, policy, kReplay + flags + Words{fmt::format("--compile.memory_policy={}", policy)});
    check_equal(place, "eager", policy);
  }
  run_at(place, point, "no passes", flags + Words{"--compile.passes=[]"});
  run_at(place, point, "gathers apart", flags + Words{"--compile.enable_fsdp_ag_rs_overlap=true"});
  for (const char* other : {"no passes", "gathers apart"}) check_equal(place, "eager", other);
}

// The same global batch of 12 sequences.
void run_on(const Place& place, const Shares& shares, const std::string& name, int steps,
            const Words& flags) {
  place.play(shares.ranks(), name,
             shares.flags() + flags +
                 Words{"--training.global_batch_size=12",
                       fmt::format("--training.local_batch_size={}", 12 / shares.data()),
                       fmt::format("--training.steps={}", steps), "--training.document_attention=true",
                       "--lr_scheduler.warmup_steps=0"});
}

TEST_CASE("tensor parallelism has the loss and gradient norm of 1 rank") {
  const Place place;
  for (const auto& [steps, tolerance] : {std::pair{1, "3e-7"}, std::pair{3, "1e-6"}}) {
    const std::string one = fmt::format("1 for {}", steps);
    run_on(place, {1}, one, steps, kFourKvHeads);
    for (const Shares& shares : {Shares{2}, Shares{4}, Shares{2, 1, 2}, Shares{2, 2, 1}}) {
      const std::string name = fmt::format("{} for {}", shares.name(), steps);
      run_on(place, shares, name, steps, kFourKvHeads);
      const ProgramResult compared = place.compare(one, name, {"--tolerance", tolerance});
      INFO(name << ":\n" << compared.output);
      CHECK(compared.exit_code == 0);
    }
  }
}

TEST_CASE("a tied embedding and head are tensor-parallel together") {
  const Place place;
  const Words tied = kFourKvHeads + Words{"--model.tie_embeddings=true"};
  run_on(place, {1}, "1", 3, tied);
  run_on(place, {4}, "4", 3, tied);
  const ProgramResult compared = place.compare("1", "4", {"--tolerance", "1e-6"});
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
}

// Experts are not cut: each rank has all experts for its own tokens.
TEST_CASE(
    "tensor-parallel DeepSeek-V3 has the same bits eager and replayed, and the numbers of 1 "
    "rank") {
  const Words heads = {"--model.n_heads=4"};
  climb_deepseek({4, false, true, false, true}, Shares{2, 1, 2}.flags() + heads);
  climb_deepseek({2, true, false, false, false}, Shares{2}.flags() + heads + Words{"--model.q_lora_rank=0"});
  const Place place(kTinyDeepSeek);
  run_on(place, {1}, "1", 3, heads);
  for (const Shares& shares : {Shares{2}, Shares{2, 1, 2}}) {
    run_on(place, shares, shares.name(), 3, heads);
    const ProgramResult compared = place.compare("1", shares.name(), {"--tolerance", "1e-6"});
    INFO(shares.name() << ":\n" << compared.output);
    CHECK(compared.exit_code == 0);
  }
}

}  // namespace
}  // namespace rondo
