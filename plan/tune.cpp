#include "plan/tune.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/plan/matmul_products.h"
#include "config/derived/batch.h"
#include "config/derived/layout.h"
#include "ops/matmul/matmul.h"
#include "plan/pipeline_plan.h"
#include "trainer/device/compute_device.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

constexpr double kWorthIt = 0.99;  // of ATen's time

struct CountedProduct {
  ir::Product product;
  std::int64_t calls = 0;
};

void count_products(const StepProgram& functions, std::vector<CountedProduct>& counted) {
  for (const CompiledStep* step : functions.all())
    for (ir::Product& product : ir::matmul_products(step->graph())) {
      auto entry = std::find_if(counted.begin(), counted.end(),
                                [&](const CountedProduct& c) { return c.product.key == product.key; });
      if (entry == counted.end()) entry = counted.insert(entry, {std::move(product), 0});
      ++entry->calls;
    }
}

std::vector<CountedProduct> products_of_job(const JobConfig& config, std::int64_t world) {
  const Layout layout = resolve_layout(config, world);
  const std::shared_ptr<const Decoder> model = make_decoder(config.model.name, config.model.sizes);
  const CompileRequest request = compile_request(config, TargetDevice::cuda, {});
  std::vector<CountedProduct> counted;
  if (follows_schedule(config)) {
    const PipelineRanks ranks(config, layout, 0, model, request);
    for (const StepProgram& kind : ranks.kinds()) count_products(kind, counted);
  } else {
    count_products(compile_step(config, layout, std::nullopt, 0, model, request), counted);
  }
  return counted;
}

}  // namespace

MatmulTable tune_matmuls(const JobConfig& config, std::int64_t world,
                         const std::function<void(const MatmulRow&)>& measured) {
  const ComputeDevice device = take_device(config, {});
  const std::vector<CountedProduct> products = products_of_job(config, world);
  MatmulTable table{device.name, {}};
  for (const auto& [product, calls] : products) {
    const MatmulTimes times = measure_matmul(product.shape, device.device);
    MatmulRow row{product.key, calls, 1e6 * times.aten_s, 1e6 * times.aten_s, ""};
    if (!times.algorithms.empty() && times.algorithms[0].seconds < kWorthIt * times.aten_s) {
      row.us = 1e6 * times.algorithms[0].seconds;
      row.algorithm = to_text(times.algorithms[0].algorithm);
    }
    measured(row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace rondo
