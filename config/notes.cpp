#include "config/notes.h"

#include <fmt/format.h>

#include <utility>

#include "config/derived/batch.h"
#include "config/derived/dtypes.h"
#include "config/derived/pipeline_layout.h"
#include "config/derived/schedule_steps.h"
#include "config/schema/keys.h"
#include "config/torchtitan.h"

namespace rondo {
namespace {

using Notes = std::vector<std::string>;

bool is_flag(const Origins& origins, const std::string& key) {
  const auto assignment = origins.assigned.find(key);
  return assignment != origins.assigned.end() && assignment->second.from_flag;
}

bool counts_in_pipelines(const std::string& key) {
  return (key.starts_with("parallelism.pipeline_parallel_") && key_of(key) != "pipeline_parallel_degree") ||
         key == "parallelism.module_fqns_per_model_part";
}

void add_schedule_notes(const JobConfig& config, Notes& notes) {
  const LrScheduler& schedule = config.lr_scheduler;
  if (const ScheduleSteps steps = schedule_steps(config); schedule.warmup_steps > steps.warmup)
    notes.push_back(
        fmt::format("lr_scheduler.warmup_steps = {} is longer than {} = {}: the learning rate rises "
                    "through the whole run",
                    schedule.warmup_steps,
                    schedule.total_steps ? "lr_scheduler.total_steps" : "training.steps", steps.warmup));
}

void add_optimizer_notes(const JobConfig& config, const Origins& origins, Notes& notes) {
  if (const OptimizerImplementation named = config.optimizer.implementation;
      named == OptimizerImplementation::foreach || named == OptimizerImplementation::for_loop)
    notes.push_back(
        fmt::format("optimizer.implementation = \"{}\": the update is part of the graph, as with \"{}\"; "
                    "the numbers are the same",
                    name_of(named), name_of(Optimizer().implementation)));
  for (const char* key : {"training.mixed_precision_param", "training.mixed_precision_reduce"})
    if (config.training.dtype == Precision::float64 && is_flag(origins, key))
      notes.push_back(
          fmt::format("without effect: {} (training.dtype = \"float64\" is the type of all numbers)", key));
  for (const auto& [key, given] : origins.assigned)
    if (given.from_flag && key.starts_with("optimizer.muon_") && config.optimizer.name != OptimizerName::muon)
      notes.push_back(
          fmt::format("without effect: {} (optimizer.name = \"{}\")", key, name_of(config.optimizer.name)));
  if (is_flag(origins, "optimizer.bf16_rounding") && moment_dtype(config) != Precision::bfloat16)
    notes.push_back(
        "without effect: optimizer.bf16_rounding (neither parameters nor moments are in bfloat16)");
}

void add_parallelism_notes(const JobConfig& config, const Origins& origins, Notes& notes) {
  for (const auto& [key, given] : origins.assigned)
    if (given.from_flag && counts_in_pipelines(key) && !config.parallelism.has_pipeline())
      notes.push_back(fmt::format("without effect: {} (parallelism.pipeline_parallel_degree = 1)", key));
  if (overlapped_microbatches(config) > 1 && config.parallelism.expert_parallel_degree > 1 &&
      config.parallelism.expert_parallel_comm_backend == ExpertExchange::exact_counts)
    notes.push_back(
        "parallelism.overlapped_microbatches hides no exchange of experts by exact counts, for which the "
        "host waits; parallelism.expert_parallel_comm_backend = \"static\" is hidden");
  if (std::string note = few_microbatches(config, known_microbatches(config)); !note.empty())
    notes.push_back(std::move(note));
}

}  // namespace

std::vector<std::string> notes_on(const JobConfig& config, const Origins& origins) {
  Notes notes;
  add_schedule_notes(config, notes);
  add_optimizer_notes(config, origins, notes);
  add_parallelism_notes(config, origins, notes);
  for (std::string& note : torchtitan_notes(config, origins)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace rondo
