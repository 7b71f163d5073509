// Plans with a table of compile.matmul_algorithms, from the same device and from another.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "compiler/plan/matmul_products.h"
#include "config/load.h"
#include "plan/plan.h"
#include "tests/runs/metrics/scratch.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

using Catch::Approx;

constexpr const char* kAlgorithm = "130100:0:42.1.0.0.0.0.0.0";

class TunedJob {
 public:
  JobConfig config(const std::string& table = "") const {
    return load_config({"--model.flavor=debugmodel", "--model.n_layers=2", "--training.seq_len=256",
                        "--compile.numerics=rounds", "--compile.matmul_algorithms=" + table},
                       TargetDevice::cuda);
  }
  // Writes a table of the step's products, each of `us` by an algorithm or by LibTorch.
  std::string table(const std::string& device, double us, const std::string& algorithm = kAlgorithm) {
    const JobConfig job = config();
    const auto functions = compile_step(job, resolve_layout(job, 1), std::nullopt, 0,
                                        make_decoder(job.model.name, job.model.sizes),
                                        compile_request(job, TargetDevice::cuda, {}));
    MatmulTable table{device, {}};
    calls_ = 0;
    for (const CompiledStep* step : functions.all())
      for (const ir::Node& node : step->graph().nodes)
        if (const std::string key = ir::product_key(step->graph(), node); !key.empty()) {
          ++calls_;
          if (std::none_of(table.rows.begin(), table.rows.end(),
                           [&](const MatmulRow& row) { return row.product == key; }))
            table.rows.push_back({key, 1, algorithm.empty() ? us : 2 * us, us, algorithm});
        }
    const auto file = scratch_ / "table.json";
    write_text(file, to_text(table));
    return file.string();
  }
  double calls() const { return calls_; }  // of products in the last table

 private:
  Scratch scratch_;
  int calls_ = 0;
};

double compute_s(const JobConfig& config, const std::string& device) {
  return plan_job(config, 1, 0, *ir::find_device_model(device)).step.compute_s;
}

TEST_CASE("a plan uses the measured times of products, of chosen algorithms and of LibTorch") {
  TunedJob job;
  const double chosen = compute_s(job.config(job.table("NVIDIA H200", 1000)), "h200");
  REQUIRE(job.calls() > 10);
  CHECK(compute_s(job.config(job.table("NVIDIA H200", 3000)), "h200") - chosen == Approx(job.calls() * 2e-3));
  CHECK(compute_s(job.config(job.table("NVIDIA H200", 1000, "")), "h200") == Approx(chosen));
}

TEST_CASE("a plan for another device than the table's notes that and uses its own times") {
  TunedJob job;
  const std::string table = job.table("NVIDIA H200", 1e6);
  const JobPlan plan = plan_job(job.config(table), 1, 0, *ir::find_device_model("h100"));
  CHECK(plan.step.compute_s < 1);
  CHECK(std::count(
            plan.notes.begin(), plan.notes.end(),
            "compile.matmul_algorithms was measured on \"NVIDIA H200\"; its times do not apply to h100") ==
        1);
}

}  // namespace
}  // namespace rondo
