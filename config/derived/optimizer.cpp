#include "config/derived/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/schema/parameter_groups.h"
#include "models/parts/model_spec.h"

namespace rondo {

std::vector<BrokenRule> broken_early_step(const JobConfig& config, std::optional<std::int64_t> microbatches) {
  if (!config.optimizer.early_step_in_backward) return {};
  const std::string key = "optimizer.early_step_in_backward";
  const Parallelism& p = config.parallelism;
  std::vector<BrokenRule> broken;
  const auto require = [&](bool holds, const std::string& other, const std::string& rule) {
    if (!holds) broken.push_back({{key, other}, rule});
  };
  require(std::isinf(config.training.max_norm), "training.max_norm",
          "the early step cannot clip, because the norm is known after the backward; set training.max_norm = "
          "inf");
  require(config.compile.enable, "compile.enable", "needs a recorded graph: set compile.enable = true");
  require(!p.has_pipeline(), "parallelism.pipeline_parallel_degree",
          "a pipeline updates parameters after all its microbatches; set "
          "parallelism.pipeline_parallel_degree = 1");
  require(p.has_pipeline() || microbatches.value_or(1) == 1, "training.global_batch_size",
          fmt::format("gradients are summed over {} microbatches and live until the last; set "
                      "training.global_batch_size = -1 and raise training.local_batch_size",
                      microbatches.value_or(1)));
  require(
      p.expert_capacity_factor == 0 || p.expert_overflow == ExpertOverflow::drop,
      "parallelism.expert_overflow",
      "the early step cannot be undone when experts overflow; set parallelism.expert_overflow = \"drop\", "
      "or parallelism.expert_capacity_factor = 0");
  return broken;
}

std::vector<BrokenRule> broken_muon(const JobConfig& config) {
  const Optimizer& o = config.optimizer;
  std::vector<BrokenRule> broken;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& rule) {
    if (!holds) broken.push_back({std::move(keys), rule});
  };
  const std::vector<ParameterGroup> groups = read_parameter_groups(o.parameter_groups);
  const bool chooses = std::ranges::any_of(groups, &ParameterGroup::by_adamw);
  if (o.name != OptimizerName::muon) {
    require(!chooses, {"optimizer.parameter_groups", "optimizer.name"},
            "optimizer=AdamW is for groups beside Muon; remove it, or set optimizer.name = \"Muon\"");
    return broken;
  }
  if (const ModelSpec* const model = chooses ? find_model_spec(config.model.name) : nullptr) {
    const std::vector<ParameterRule> parameters = model->parameters(config.model.sizes);
    const auto has_matrix = [&](std::size_t group) {
      return std::ranges::any_of(parameters, [&](const ParameterRule& rule) {
        return rule.is_hidden_matrix() && group_of(groups, rule.name) == group;
      });
    };
    for (std::size_t i = 0; i < groups.size(); ++i)
      require(!groups[i].by_adamw || has_matrix(i), {"optimizer.parameter_groups"},
              fmt::format("\"{}\" has no matrix of a hidden layer, and AdamW updates all others anyway; "
                          "remove optimizer=AdamW from it",
                          fmt::join(groups[i].names, "+")));
  }
  require(!o.early_step_in_backward, {"optimizer.early_step_in_backward", "optimizer.name"},
          "Muon shares the matrices of all layers among the ranks, after the backward; set "
          "optimizer.early_step_in_backward = false, or optimizer.name = \"AdamW\"");
  require(!config.training.enable_cpu_offload, {"training.enable_cpu_offload", "optimizer.name"},
          "Muon updates the matrices of all layers together, and host memory holds the state of one layer at "
          "a time; set training.enable_cpu_offload = false, or optimizer.name = \"AdamW\"");
  require(!chooses || !matrices_of_muon(o, config.model).empty(),
          {"optimizer.parameter_groups", "optimizer.name"},
          "optimizer=AdamW leaves Muon no matrix; name fewer, or set optimizer.name = \"AdamW\"");
  return broken;
}

std::vector<std::string> matrices_of_muon(const Optimizer& optimizer, const Model& model) {
  std::vector<std::string> names;
  const ModelSpec* const spec = find_model_spec(model.name);
  if (optimizer.name != OptimizerName::muon || spec == nullptr) return names;
  const std::vector<ParameterGroup> groups = read_parameter_groups(optimizer.parameter_groups);
  for (const ParameterRule& rule : spec->parameters(model.sizes)) {
    const std::size_t group = group_of(groups, rule.name);
    if (rule.is_hidden_matrix() && (group == groups.size() || !groups[group].by_adamw))
      names.push_back(rule.name);
  }
  return names;
}

}  // namespace rondo
