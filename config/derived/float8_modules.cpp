#include "config/derived/float8_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace rondo {

std::string module_of(const ParameterRule& rule) { return rule.name.substr(0, rule.name.rfind('.')); }

bool is_named(const std::vector<std::string>& names, const ParameterRule& rule) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return module_of(rule).find(name) != std::string::npos;
  });
}

std::vector<ParameterRule> parameters_that(const JobConfig& config,
                                           const std::function<bool(const ParameterRule&)>& accept) {
  const ModelSpec* model = find_model_spec(config.model.name);
  std::vector<ParameterRule> rules;
  if (model != nullptr) rules = model->parameters(config.model.sizes);
  std::erase_if(rules, [&](const ParameterRule& rule) { return !accept(rule); });
  return rules;
}

std::vector<std::string> left_out(const JobConfig& config, const std::vector<ParameterRule>& rules,
                                  WhyNot why_not) {
  std::map<std::string, std::vector<std::string>> modules_by_reason;
  for (const ParameterRule& rule : rules)
    if (const std::string why = why_not(config, rule); !why.empty())
      modules_by_reason[why].push_back(module_of(rule));
  constexpr std::size_t kShown = 3;
  std::vector<std::string> lines;
  for (auto& [why, modules] : modules_by_reason) {
    const std::size_t more = modules.size() - std::min(kShown, modules.size());
    modules.resize(modules.size() - more);
    lines.push_back(fmt::format("{}{} ({})", fmt::join(modules, ", "),
                                more > 0 ? fmt::format(" and {} more", more) : "", why));
  }
  return lines;
}

void check_only_recipe(const std::string& section, const std::string& recipe, const std::string& only,
                       BrokenRules& broken) {
  const std::string key = section + ".recipe_name";
  if (recipe == only) return;
  broken.push_back({{key, "model.converters"},
                    fmt::format("{} = \"{}\" is not in this version; \"{}\" is", key, recipe, only)});
}

}  // namespace rondo
