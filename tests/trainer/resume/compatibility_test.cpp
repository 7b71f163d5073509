#include "trainer/resume/compatibility.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/load.h"
#include "config/sizes.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

checkpoint::Manifest of_adamw(const std::string& dtype) {
  checkpoint::Manifest manifest;
  manifest.settings = {"optimizer.name = \"AdamW\"",    "optimizer.lr = 0.0008",
                       "training.max_norm = 1.0",       "metrics.log_freq = 10",
                       "compile.executor = \"replay\"", "compile.numerics = \"exact\""};
  manifest.tensors.push_back({"optimizer/exp_avg.norm.weight", dtype, {4}, {}});
  return manifest;
}

std::string refusal(const checkpoint::Manifest& manifest, const std::vector<std::string>& flags) {
  try {
    check_optimizer(manifest, load_config(flags), "step-5");
    return "";
  } catch (const Misfit& misfit) {
    return misfit.what();
  }
}

TEST_CASE("changed settings that affect numbers are reported with both values, and no others") {
  const checkpoint::Manifest manifest = of_adamw("f32");
  CHECK(setting_change_lines(manifest, manifest.settings).empty());
  const std::vector<std::string> now = {"optimizer.name = \"AdamW\"",    "optimizer.lr = 0.5",
                                        "metrics.log_freq = 20",         "compile.executor = \"interpreter\"",
                                        "compile.numerics = \"rounds\"", "training.dtype = \"float32\""};
  CHECK(setting_change_lines(manifest, now) ==
        std::vector<std::string>{"compile.numerics: \"exact\" in the checkpoint, \"rounds\" now",
                                 "optimizer.lr: 0.0008 in the checkpoint, 0.5 now",
                                 "training.dtype: not set in the checkpoint, \"float32\" now",
                                 "training.max_norm: 1.0 in the checkpoint, not set now"});
  CHECK(setting_change_lines({}, now).empty());  // written by a version without settings
}

TEST_CASE("changed settings after the first ten are counted, and control characters are escaped") {
  checkpoint::Manifest manifest;
  for (int i = 0; i < 30; ++i) manifest.settings.push_back("optimizer.x" + std::to_string(i) + " = \x1b[31m");
  const std::vector<std::string> lines = setting_change_lines(manifest, {});
  REQUIRE(lines.size() == 11);
  CHECK(lines.front() == "optimizer.x0: \\x1b[31m in the checkpoint, not set now");
  CHECK(lines.back() == "and 20 more settings differ from the checkpoint");
}

TEST_CASE("the moments of another optimizer, or in another dtype, are refused with what to set") {
  CHECK(refusal(of_adamw("f32"), {}).empty());
  CHECK(refusal(of_adamw("f32"), {"--optimizer.name=Adam"}) ==
        "step-5 holds the moments of another optimizer; set optimizer.name = \"AdamW\" (here \"Adam\"), or "
        "reset the optimizer with checkpoint.exclude_from_loading = [\"optimizer\"]");
  CHECK_THAT(refusal(of_adamw("bf16"), {}),
             ContainsSubstring("holds the optimizer's state in bf16, which training.dtype = \"float32\" with "
                               "optimizer.implementation = \"fused\" would convert; set them back"));
  const std::string narrow = "--optimizer.implementation=fused_opt_states_bf16";
  CHECK(refusal(of_adamw("bf16"), {narrow}).empty());
  CHECK_THAT(refusal(of_adamw("f32"), {narrow}), ContainsSubstring("holds the optimizer's state in f32"));
  CHECK(refusal(of_adamw("f64"), {narrow, "--training.dtype=float64"}).empty());
}

TEST_CASE(
    "weights trained on short rows are accepted with rotations scaled for long rows, but not for short "
    "ones") {
  const auto refusal = [](const std::string& trained_with, const std::vector<std::string>& flags) {
    std::vector<std::string> before = {"--model.name=deepseek_v3",
                                       "--model.rope_scaling_factor=" + trained_with};
    std::vector<std::string> now = {"--model.name=deepseek_v3", "--checkpoint.initial_load_model_only=true"};
    now.insert(now.end(), flags.begin(), flags.end());
    const JobConfig saved = load_config(before);
    checkpoint::Manifest manifest;
    manifest.model = model_facts(saved.model.name, saved.model.sizes);
    try {
      check_initial(manifest, load_config(now), "step-5");
      return std::string();
    } catch (const Misfit& misfit) {
      return std::string(misfit.what());
    }
  };
  CHECK(refusal("1", {"--training.seq_len=8192"}).empty());
  CHECK(refusal("1", {"--training.seq_len=4096"}).empty());
  CHECK(refusal("40", {"--training.seq_len=8192"}).empty());
  CHECK_THAT(refusal("40", {"--training.seq_len=4096"}),
             ContainsSubstring("model.rope_scaling_factor = 40.0 (here 1.0)"));
  CHECK_THAT(refusal("1", {"--training.seq_len=4096", "--model.rope_scaling_factor=40"}),
             ContainsSubstring("set model.rope_scaling_factor = 1.0 (here 40.0)"));
}

}  // namespace
}  // namespace rondo
