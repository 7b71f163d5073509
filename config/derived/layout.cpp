#include "config/derived/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/derived/batch.h"
#include "config/derived/divisibility.h"
#include "config/derived/pipeline_layout.h"
#include "support/error.h"

namespace rondo {

Layout resolve_layout(const JobConfig& config, std::int64_t world_size) {
  const Parallelism& degrees = config.parallelism;
  Layout layout;
  layout.mesh = Mesh(
      world_size,
      {degrees.pipeline_parallel_degree, degrees.data_parallel_replicate_degree,
       degrees.data_parallel_shard_degree, degrees.context_parallel_degree, degrees.tensor_parallel_degree},
      degrees.expert_parallel_degree, degrees.expert_tensor_parallel_degree);
  const std::vector<BrokenRule> broken =
      broken_shares(config, {layout.mesh.degree(Axis::tp), layout.mesh.degree(Axis::cp)});
  if (!broken.empty()) throw Error(ExitCode::config, broken[0].rule);
  const std::int64_t local = config.training.local_batch_size;
  const std::int64_t unit = local * layout.data_parallel();
  const std::int64_t global = config.training.global_batch_size;
  layout.global_batch_size = global == -1 ? unit : global;
  if (layout.global_batch_size % unit != 0)
    throw Error(
        ExitCode::config,
        fmt::format("training.global_batch_size = {} must be a multiple of training.local_batch_size * "
                    "data-parallel degree = {} * {} = {}; the nearest is {}",
                    global, local, layout.data_parallel(), unit,
                    std::max<std::int64_t>(unit, (global + unit / 2) / unit * unit)));
  layout.microbatch_size = microbatch_size(config);
  layout.microbatches = layout.global_batch_size / (layout.microbatch_size * layout.data_parallel());
  const std::vector<BrokenRule> of_pipeline = broken_pipeline(config, layout.microbatches);
  if (!of_pipeline.empty()) throw Error(ExitCode::config, of_pipeline[0].rule);
  return layout;
}

std::vector<std::pair<const char*, std::int64_t>> named_degrees(const Mesh& mesh) {
  return {{"pipeline_parallel", mesh.degree(Axis::pp)},
          {"data_parallel_shard", mesh.degree(Axis::dp_shard)},
          {"data_parallel_replicate", mesh.degree(Axis::dp_replicate)},
          {"context_parallel", mesh.degree(Axis::cp)},
          {"tensor_parallel", mesh.degree(Axis::tp)},
          {"expert_parallel", mesh.degree(Axis::ep)},
          {"expert_tensor_parallel", mesh.degree(Axis::etp)}};
}

std::int64_t validation_steps(const JobConfig& config, const Layout& layout, std::int64_t samples) {
  const Validation& v = config.validation;
  return v.steps != -1 ? v.steps
                       : std::max<std::int64_t>(1, samples / (v.local_batch_size * layout.data_parallel()));
}

}  // namespace rondo
