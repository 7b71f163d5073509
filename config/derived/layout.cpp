#include "config/derived/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/derived/batch.h"
#include "config/derived/divisibility.h"
#include "config/derived/optimizer.h"
#include "config/derived/pipeline_layout.h"
#include "support/error.h"

namespace rondo {

Layout resolve_layout(const JobConfig& config, std::int64_t world_size) {
  const Parallelism& p = config.parallelism;
  Degrees degrees;
  for (const auto& [axis, degree] : kDegreesOfDense) degrees[static_cast<std::size_t>(axis)] = p.*degree;
  Layout layout;
  layout.mesh = Mesh(world_size, degrees, p.expert_parallel_degree, p.expert_tensor_parallel_degree);
  const std::vector<BrokenRule> broken =
      broken_shares(config, {layout.mesh.degree(Axis::tp), layout.mesh.degree(Axis::cp)});
  if (!broken.empty()) throw Error(ExitCode::config, broken[0].rule);
  const std::int64_t local = config.training.local_batch_size;
  const std::int64_t unit = local * layout.data_parallel();
  layout.global_batch_size = global_batch_size(config.training, layout.data_parallel());
  if (layout.global_batch_size % unit != 0)
    throw Error(
        ExitCode::config,
        fmt::format("training.global_batch_size = {} must be a multiple of training.local_batch_size * "
                    "data-parallel degree = {} * {} = {}; the nearest is {}",
                    layout.global_batch_size, local, layout.data_parallel(), unit,
                    std::max<std::int64_t>(unit, (layout.global_batch_size + unit / 2) / unit * unit)));
  layout.microbatch_size = microbatch_size(config);
  layout.microbatches = layout.global_batch_size / (layout.microbatch_size * layout.data_parallel());
  for (const auto& broken_rules :
       {broken_pipeline(config, layout.microbatches), broken_early_step(config, layout.microbatches)})
    if (!broken_rules.empty()) throw Error(ExitCode::config, broken_rules[0].rule);
  return layout;
}

std::vector<std::pair<std::string, std::int64_t>> named_degrees(const Mesh& mesh) {
  std::vector<std::pair<std::string, std::int64_t>> degrees;
  for (const auto& [axis, degree] : kDegrees) {
    const std::string_view key = degree_key(axis);
    degrees.emplace_back(key.substr(0, key.rfind("_degree")), mesh.degree(axis));
  }
  return degrees;
}

std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples) {
  const Validation& v = config.validation;
  const std::int64_t rows = v.local_batch_size * layout.data_parallel();
  const std::int64_t most = std::max<std::int64_t>(1, (samples + rows - 1) / rows);
  return v.steps == -1 ? most : std::min(v.steps, most);
}

}  // namespace rondo
