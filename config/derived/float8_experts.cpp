#include "config/derived/float8_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/derived/float8.h"

namespace rondo {
namespace {

constexpr const char* kExpertTensor = "parallelism.expert_tensor_parallel_degree";

Float8Recipe expert_recipe(const JobConfig& config) {
  if (config.model.converts_experts_to_mx()) return Float8Recipe::mxfp8;
  return config.float8_experts.recipe_name.value_or(Float8Recipe::rowwise_with_gw_hp);
}
const std::vector<std::string>& names_of_experts(const JobConfig& config) {
  return config.model.converts_experts_to_mx() ? config.mx_experts.fqns : config.float8_experts.fqns;
}
std::string experts_key(const JobConfig& config) { return float8_expert_section(config) + ".fqns"; }

std::vector<ParameterRule> expert_matrices(const JobConfig& config) {
  return parameters_that(config, [](const ParameterRule& rule) {
    return rule.style == ParallelStyle::experts && rule.sizes.size() == 3;
  });
}

std::string why_not_float8_experts(const JobConfig& config, const ParameterRule& rule) {
  const std::int64_t granule = float8_granule(expert_recipe(config));
  if (!is_named(names_of_experts(config), rule)) return "not named by " + experts_key(config);
  if (rule.sizes[1] % granule != 0 || rule.sizes[2] % granule != 0)
    return fmt::format("sizes are not multiples of {}", granule);
  return "";
}

}  // namespace

std::vector<ParameterRule> float8_experts(const JobConfig& config) {
  std::vector<ParameterRule> rules = expert_matrices(config);
  std::erase_if(rules,
                [&](const ParameterRule& rule) { return !why_not_float8_experts(config, rule).empty(); });
  return rules;
}

void check_experts(const JobConfig& config, BrokenRules& broken) {
  const std::vector<ParameterRule> all = expert_matrices(config);
  const std::string key = experts_key(config);
  const auto refuse = [&](const std::string& rule) {
    broken.push_back({{key, "model.converters", "model.name", "model.flavor"}, rule});
  };
  if (all.empty())
    return refuse(fmt::format("{} has no experts; remove {} from model.converters", config.model.name,
                              float8_expert_section(config)));
  if (config.model.converts_experts_to_float8() && config.model.converts_experts_to_mx())
    return refuse(
        "products of experts are either in float8 or in MXFP8; remove quantize.grouped_mm.float8 or "
        "quantize.grouped_mm.mx");
  if (config.model.converts_experts_to_mx())
    check_only_recipe(float8_expert_section(config), config.mx_experts.recipe_name, MxExperts().recipe_name,
                      broken);
  if (names_of_experts(config).empty())
    return refuse(fmt::format("{} names no experts; [\"experts\"] names all", key));
  for (const std::string& name : names_of_experts(config))
    if (std::none_of(all.begin(), all.end(), [&](const auto& rule) { return is_named({name}, rule); }))
      return refuse(fmt::format("\"{}\" in {} names no experts; [\"experts\"] names all", name, key));
  const std::vector<ParameterRule> chosen = float8_experts(config);
  if (chosen.empty())
    return refuse(fmt::format("no product of experts is computed in float8: {}",
                              fmt::join(left_out(config, all, why_not_float8_experts), "; ")));
  const std::int64_t ranks = config.parallelism.expert_tensor_parallel_degree;
  const std::int64_t granule = float8_granule(expert_recipe(config));
  for (const ParameterRule& rule : chosen) {
    const ExpertCut& cut = rule.expert_cut;
    if (cut.dim == 0) continue;
    const std::int64_t size = rule.sizes[static_cast<std::size_t>(cut.dim)];
    if (size % ranks != 0 || size / ranks % granule == 0) continue;
    broken.push_back({{kExpertTensor, key, "model.name"},
                      fmt::format("{} = {} leaves {} of the {} of {} to a rank, and float8 needs a multiple "
                                  "of {}",
                                  kExpertTensor, ranks, size / ranks, size, module_of(rule), granule)});
    return;
  }
}

std::string float8_expert_section(const JobConfig& config) {
  return config.model.converts_experts_to_mx() ? "quantize.grouped_mm.mx" : "quantize.grouped_mm.float8";
}

std::optional<Float8Options> float8_expert_options(const JobConfig& config) {
  const bool mx = config.model.converts_experts_to_mx();
  if (!mx && !config.model.converts_experts_to_float8()) return std::nullopt;
  return Float8Options{expert_recipe(config), mx ? config.mx_experts.emulate : config.float8_experts.emulate};
}

std::string float8_expert_summary(const JobConfig& config) {
  const std::optional<Float8Options> options = float8_expert_options(config);
  if (!options) return "";
  const std::vector<ParameterRule> all = expert_matrices(config);
  std::string text = fmt::format("float8: {}, {} of {} products of experts", in_words(*options),
                                 float8_experts(config).size(), all.size());
  for (const std::string& modules : left_out(config, all, why_not_float8_experts)) text += "; not " + modules;
  return text;
}

}  // namespace rondo
