// Tries increasing numbers of microbatches and layers until the rules of pipelines hold, since
// fewer make a faster proof.
#include "prove/playable.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "config/derived/pipeline_layout.h"

namespace rondo {
namespace {

const std::string kSchedule = "parallelism.pipeline_parallel_schedule=", kLayers = "model.n_layers=",
                  kRoom = "parallelism.expert_capacity_factor=";

// Returns the last setting of a key, e.g. "key=value"; nullptr without one. `key` includes the "=".
const std::string* setting_of(const ProofLayout& layout, const std::string& key) {
  const auto it = std::find_if(layout.settings.rbegin(), layout.settings.rend(),
                               [&](const std::string& setting) { return setting.starts_with(key); });
  return it == layout.settings.rend() ? nullptr : &*it;
}

bool is_playable(JobConfig job, const ProofLayout& layout, std::int64_t layers, std::int64_t microbatches) {
  job.parallelism.pipeline_parallel_degree = layout.pipeline;
  if (const std::string* schedule = setting_of(layout, kSchedule))
    job.parallelism.pipeline_parallel_schedule = schedule->substr(kSchedule.size());
  if (const std::string* room = setting_of(layout, kRoom); room != nullptr && *room == kRoom + "0")
    job.parallelism.expert_capacity_factor = 0;
  job.model.sizes["n_layers"] = layers;
  return broken_pipeline(job, microbatches).empty();
}

}  // namespace

void make_playable(const JobConfig& job, ProofCase& proof) {
  constexpr std::int64_t kMaxLayers = 24, kMaxMicrobatches = 24;
  const auto small = std::get<std::int64_t>(job.model.sizes.at("n_layers"));
  std::int64_t layers = small;
  for (ProofLayout& layout : proof.layouts) {
    if (layout.pipeline == 1) continue;
    if (setting_of(layout, kRoom) == nullptr && job.parallelism.expert_capacity_factor > 0)
      layout.settings.push_back(kRoom + "0");
    const std::int64_t first =
        layout.microbatches > 1 ? layout.microbatches : std::max<std::int64_t>(4, layout.pipeline);
    const std::int64_t last = layout.microbatches > 1 ? layout.microbatches : kMaxMicrobatches;
    const auto set_microbatches = [&](std::int64_t candidate_layers) {
      for (std::int64_t microbatches = first; microbatches <= last; ++microbatches)
        if (is_playable(job, layout, candidate_layers, microbatches))
          return layout.microbatches = microbatches, true;
      return false;
    };
    for (std::int64_t candidate = layers; candidate <= kMaxLayers; ++candidate)
      if (set_microbatches(candidate)) {
        layers = candidate;
        break;
      }
  }
  for (ProofLayout& layout : proof.layouts)
    if (layers != small && setting_of(layout, kLayers) == nullptr)
      layout.settings.push_back(fmt::format("{}{}", kLayers, layers));
}

}  // namespace rondo
