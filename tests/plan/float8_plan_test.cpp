// Plans of jobs in float8.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "config/load.h"
#include "plan/plan.h"
#include "support/error.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;
using Words = std::vector<std::string>;

JobPlan plan(const std::vector<std::string>& flags, const char* device) {
  std::vector<std::string> words = {"--model.flavor=8B", "--model.n_layers=16", "--training.seq_len=4096",
                                    "--training.local_batch_size=1"};
  words.insert(words.end(), flags.begin(), flags.end());
  return plan_job(load_config(words, TargetDevice::cuda), 8, 0, *ir::find_device_model(device));
}
std::vector<std::string> in_float8(const char* recipe) {
  return {"--model.converters=float8", "--quantize.linear.float8.filter_fqns=output",
          std::string("--quantize.linear.float8.recipe_name=") + recipe};
}

JobPlan plan_of_experts(const Words& more, const char* device) {
  Words words = {"--model.name=deepseek_v3",
                 "--model.flavor=16B",
                 "--model.n_layers=4",
                 "--training.seq_len=4096",
                 "--training.local_batch_size=4",
                 "--parallelism.expert_parallel_degree=8"};
  words.insert(words.end(), more.begin(), more.end());
  return plan_job(load_config(words, TargetDevice::cuda), 8, 0, *ir::find_device_model(device));
}

TEST_CASE(
    "float8 shortens the planned step on a Hopper, and takes memory only for what recomputation saves") {
  const JobPlan bf16 = plan({}, "h100"), tensorwise = plan(in_float8("tensorwise"), "h100"),
                blockwise = plan(in_float8("blockwise"), "h100");
  CHECK(tensorwise.tokens_per_s() > 1.1 * bf16.tokens_per_s());
  CHECK(blockwise.tokens_per_s() > bf16.tokens_per_s());
  CHECK(tensorwise.tokens_per_s() > blockwise.tokens_per_s());
  CHECK(tensorwise.memory.total_bytes() < 1.02 * bf16.memory.total_bytes());
}

TEST_CASE("experts in float8 shorten the planned step on a Hopper, and are refused for other devices") {
  const auto of = plan_of_experts;
  // Without a bounded capacity, writing zeros to empty rows costs more than the products save.
  const Words bf16 = {"--parallelism.expert_capacity_factor=1.25"};
  Words experts = bf16;
  experts.insert(experts.end(), {"--model.converters=quantize.grouped_mm.float8",
                                 "--quantize.grouped_mm.float8.fqns=experts"});
  CHECK(of(experts, "h100").tokens_per_s() > of(bf16, "h100").tokens_per_s());
  CHECK_THROWS_WITH(of(experts, "b200"),
                    ContainsSubstring("has no products of experts in float8; use a Hopper"));
  Words blocks = experts;
  blocks.emplace_back("--quantize.grouped_mm.float8.recipe_name=blockwise");
  CHECK_THROWS_WITH(
      of(blocks, "h100"),
      ContainsSubstring("has no grouped products of \"blockwise\", as no GPU in this version; use "
                        "quantize.grouped_mm.float8.emulate = true"));
  Words emulated = experts;
  emulated.emplace_back("--quantize.grouped_mm.float8.emulate=true");
  CHECK(of(emulated, "a100-80gb").tokens_per_s() > 0);
}

TEST_CASE("MXFP8 shortens the planned step on a B200 or GB300, and is refused for other devices") {
  const std::vector<std::string> mx = {"--model.converters=quantize.linear.mx"};
  for (const char* device : {"b200", "gb300"})
    CHECK(plan(mx, device).tokens_per_s() > 1.1 * plan({}, device).tokens_per_s());
  CHECK_THROWS_WITH(plan(mx, "h100"), ContainsSubstring("has no products of MXFP8; use a B200"));
}

TEST_CASE("NVFP4 shortens the planned step further than MXFP8, and is refused for other devices") {
  const Words nvfp4 = {"--model.converters=quantize.linear.nvfp4"},
              mx = {"--model.converters=quantize.linear.mx"};
  for (const char* device : {"b200", "b300", "gb200", "gb300"})
    CHECK(plan(nvfp4, device).tokens_per_s() > 1.05 * plan(mx, device).tokens_per_s());
  for (const char* device : {"h100", "rtxpro6000"})
    CHECK_THROWS_WITH(plan(nvfp4, device), ContainsSubstring("has no products of NVFP4; use a B200"));
}

// Quantizing and padding take about the time that the products save.
TEST_CASE("experts in MXFP8 shorten the planned products on a B200, and are refused for other devices") {
  const Words mx = {"--model.converters=quantize.grouped_mm.mx", "--quantize.grouped_mm.mx.fqns=experts"};
  const auto products = [](const Words& flags) {
    return plan_of_experts(flags, "b200").step.of(ir::CostKind::matmul).seconds;
  };
  CHECK(products(mx) < 0.95 * products({}));
  CHECK_THROWS_WITH(plan_of_experts(mx, "h100"),
                    ContainsSubstring("[\"quantize.grouped_mm.mx\"]: ") &&
                        ContainsSubstring("has no products of MXFP8; use a B200"));
}

// Tokens of tensor parallelism, and weights of FSDP.
TEST_CASE("with a scale per matrix, gathers have half the planned bytes of bf16, and the step is shorter") {
  const auto of = [](const Words& more) {
    Words words = in_float8("tensorwise");
    words.insert(words.end(), {"--parallelism.tensor_parallel_degree=2", "--compile.memory_policy=full"});
    words.insert(words.end(), more.begin(), more.end());
    return plan(words, "h100");
  };
  const JobPlan before = of({"--compile.disable_passes=quantize_before_gather"}), after = of({});
  const auto gathered = [](const JobPlan& plan) {
    return plan.step.of(ir::CollectiveKind::all_gather).sent_bytes;
  };
  // The head is not in float8.
  CHECK(gathered(after) < 0.56 * gathered(before));
  CHECK(after.tokens_per_s() > 1.03 * before.tokens_per_s());
  CHECK(after.memory.total_bytes() <= before.memory.total_bytes());
}

TEST_CASE("float8 is refused for a device without float8 products, and emulated for any device") {
  CHECK_THROWS_WITH(
      plan(in_float8("tensorwise"), "a100-80gb"),
      ContainsSubstring("NVIDIA A100 SXM, 80 GB has no float8 products; use a Hopper or newer"));
  CHECK_THROWS_WITH(
      plan(in_float8("blockwise"), "b200"),
      ContainsSubstring("NVIDIA HGX B200, 180 GB has no float8 products with scales of 128 elements"));
  CHECK(plan(in_float8("rowwise"), "b200").tokens_per_s() > 0);
  std::vector<std::string> emulated = in_float8("tensorwise");
  emulated.emplace_back("--quantize.linear.float8.emulate=true");
  CHECK(plan(emulated, "a100-80gb").tokens_per_s() < plan({}, "a100-80gb").tokens_per_s());
}

}  // namespace
}  // namespace rondo
