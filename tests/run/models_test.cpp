// Tests the models other than Llama 3 and DeepSeek-V3 in whole runs: the same bits eager,
// recomputed and replayed, with tensor and expert parallelism, and exported and imported weights.
// prove_test.cpp has layouts.
#include "tests/run/models.h"

#include "tests/run/checkpoints.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

TEST_CASE("every model has the same bits eager and replayed, and its weights return from Hugging Face") {
  const SmallModel model = GENERATE(from_range(small_models()));
  INFO(model.name);
  const Place place(model.toml);
  Words flags = {"--training.steps=3", "--training.mixed_precision_param=bfloat16",
                 "--parallelism.tensor_parallel_degree=2", "--validation.enable=false",
                 "--optimizer.parameter_groups=*norm*+tok_embeddings: weight_decay=0"};
  if (model.has_experts()) flags.push_back("--parallelism.expert_tensor_parallel_degree=2");
  place.play(2, "eager", flags + kEager + Words{"--activation_checkpoint.mode=full"});
  place.play(2, "replay",
             flags + kReplay + Words{"--checkpoint.enable=true", "--checkpoint.last_save_in_hf=true"});
  const ProgramResult compared = place.compare("eager", "replay");
  INFO(compared.output);
  CHECK(compared.exit_code == 0);
  const fs::path saved = place / "replay/checkpoint/step-3";
  must_end_well({"convert", (place / "replay/checkpoint/step-3-hf").string(), (place / "back").string()});
  check_same_tensors(saved, place / "back/step-0", "model/");
}

}  // namespace
}  // namespace rondo
