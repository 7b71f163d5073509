// Chooses layers as torchtitan does (components/quantization/float8.py), by the sizes of whole
// weights. Then checks that ranks can multiply their parts of a layer in float8.
#include "config/derived/float8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/derived/batch.h"
#include "config/derived/float8_experts.h"
#include "config/derived/float8_modules.h"
#include "models/parts/model_spec.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

constexpr const char* kTensor = "parallelism.tensor_parallel_degree";
constexpr const char* kAutomatic = "auto_filter_small_kn";

Float8Recipe recipe_of(const JobConfig& config) {
  if (config.model.converts_to_mx()) return Float8Recipe::mxfp8;
  if (config.model.converts_to_nvfp4()) return Float8Recipe::nvfp4;
  return config.float8_linear.recipe_name.value_or(Float8Recipe::tensorwise);
}
const std::vector<std::string>& filter_of(const JobConfig& config) {
  return config.model.converts_to_mx()      ? config.mx_linear.filter_fqns
         : config.model.converts_to_nvfp4() ? config.nvfp4_linear.filter_fqns
                                            : config.float8_linear.filter_fqns;
}
// NVFP4 has one recipe.
std::string recipe_key(const JobConfig& config) {
  return config.model.converts_to_nvfp4() ? "model.converters" : float8_section(config) + ".recipe_name";
}
std::string filter_key(const JobConfig& config) { return float8_section(config) + ".filter_fqns"; }

// Returns whether float8 is not faster on an H100, as measured by torchao
// (_auto_filter_for_recipe).
bool is_small(Float8Recipe recipe, std::int64_t out, std::int64_t in) {
  if (recipe == Float8Recipe::tensorwise) return in <= 4096 && out <= 1024;
  return out <= 2048 || in <= 1024 || (out <= 4096 && in <= 2048);
}

std::vector<ParameterRule> linear_layers(const JobConfig& config) {
  return parameters_that(config, [](const ParameterRule& rule) { return rule.linear; });
}

// Returns why a layer keeps its precision, or "" if it is computed in float8.
std::string why_not_float8(const JobConfig& config, const ParameterRule& rule) {
  const std::string module = module_of(rule);
  const Float8Recipe recipe = recipe_of(config);
  const std::int64_t out = rule.sizes[0], in = rule.sizes[1], granule = float8_granule(recipe);
  bool automatic = false;
  for (const std::string& name : filter_of(config)) {
    automatic = automatic || (name == kAutomatic && config.model.converts_to_float8());
    if (module.find(name) != module.npos) return "named by " + filter_key(config);
  }
  if (out % granule != 0 || in % granule != 0) return fmt::format("sizes are not multiples of {}", granule);
  return automatic && is_small(recipe, out, in) ? "too small to be faster" : "";
}

std::vector<ParameterRule> float8_layers(const JobConfig& config) {
  std::vector<ParameterRule> rules = linear_layers(config);
  std::erase_if(rules, [&](const ParameterRule& rule) { return !why_not_float8(config, rule).empty(); });
  return rules;
}

std::vector<std::string> left_out(const JobConfig& config) {
  return left_out(config, linear_layers(config), why_not_float8);
}

// Returns the name for quantize.linear.float8.filter_fqns that excludes a module in all layers.
std::string name_in_layers(const std::string& module) {
  constexpr std::string_view kLayers = "layers.";
  return module.starts_with(kLayers) ? module.substr(module.find('.', kLayers.size()) + 1) : module;
}

// Returns the names that a filter may mean: "output", "attention.wq", "wq".
std::vector<std::string> names_for_filters(const std::vector<ParameterRule>& rules) {
  std::set<std::string> names;
  for (const ParameterRule& rule : rules) {
    const std::string module = name_in_layers(module_of(rule));
    names.insert(module);
    names.insert(module.substr(module.rfind('.') + 1));
  }
  return {names.begin(), names.end()};
}

// Returns whether the filter names a module. The head's name is torchtitan's default, so it may
// name none.
bool names_module(const JobConfig& config, const std::string& name) {
  const std::vector<ParameterRule> all = find_model_spec(config.model.name)->parameters(config.model.sizes);
  return name == "output" || std::any_of(all.begin(), all.end(),
                                         [&](const ParameterRule& rule) { return is_named({name}, rule); });
}

void check_mx_or_nvfp4(const JobConfig& config, BrokenRules& broken) {
  const Model& model = config.model;
  if (model.converts_to_float8() + model.converts_to_mx() + model.converts_to_nvfp4() > 1)
    broken.push_back({{"model.converters"},
                      "linear layers are either in float8, in MXFP8 or in NVFP4; keep one of float8, "
                      "quantize.linear.mx and quantize.linear.nvfp4"});
  if (model.converts_to_mx())
    check_only_recipe(float8_section(config), config.mx_linear.recipe_name, MxLinear().recipe_name, broken);
  for (const std::string& name : filter_of(config))
    if (!names_module(config, name))
      broken.push_back({{filter_key(config), "model.converters", "model.name"},
                        fmt::format("\"{}\" in {} names no module; remove it", name, filter_key(config))});
}

void check_parts(const JobConfig& config, const std::vector<ParameterRule>& layers, std::int64_t ranks,
                 BrokenRules& broken) {
  const Float8Recipe recipe = recipe_of(config);
  const std::int64_t granule = float8_granule(recipe);
  const std::string filter = filter_key(config);
  for (const ParameterRule& rule : layers) {
    if (rule.style == ParallelStyle::replicated) continue;
    const std::int64_t size = rule.sizes[rule.style == ParallelStyle::colwise ? 0 : 1];
    if (size % ranks != 0 || size / ranks % granule == 0) continue;
    broken.push_back(
        {{kTensor, recipe_key(config), filter, "model.name"},
         fmt::format("{} = {} leaves {} of the {} of {} to a rank, and float8 \"{}\" needs a multiple of {}; "
                     "{} = [\"{}\"] leaves it out",
                     kTensor, ranks, size / ranks, size, module_of(rule), name_of(recipe), granule, filter,
                     name_in_layers(module_of(rule)))});
    return;
  }
}

// Checks the tokens of a rank. Weight gradients are sums over tokens; each block of them is on one
// rank.
void check_tokens(const JobConfig& config, const std::vector<ParameterRule>& layers,
                  const ShareDegrees& degrees, BrokenRules& broken) {
  const Float8Recipe recipe = recipe_of(config);
  const std::int64_t granule = float8_granule(recipe), sequences = microbatch_size(config),
                     length = config.training.seq_len, tokens = sequences * length / degrees.context;
  const bool of_own_tokens = std::any_of(layers.begin(), layers.end(), [](const ParameterRule& rule) {
    return rule.style == ParallelStyle::replicated;
  });
  const std::int64_t count = of_own_tokens ? tokens / degrees.tensor : tokens;
  if (count % granule != 0)
    broken.push_back({{"training.seq_len", "training.local_batch_size", recipe_key(config), kTensor},
                      fmt::format("a layer has {} tokens of a microbatch of {} sequences of {} on a rank, "
                                  "and float8 \"{}\" needs a multiple of {}",
                                  count, sequences, length, name_of(recipe), granule)});
  const bool in_two_runs = context_balance(config.parallelism) != ContextBalance::none;
  const std::int64_t run = length / degrees.context / (in_two_runs ? 2 : 1);
  if (float8_piece(recipe) != 0 && degrees.context > 1 && run % granule != 0)
    broken.push_back({{"parallelism.context_parallel_degree", "training.seq_len", recipe_key(config)},
                      fmt::format("a rank has runs of {} tokens of a sequence, and float8 \"{}\" needs a "
                                  "multiple of {}, so that tokens share scales with those that they have on "
                                  "one rank",
                                  run, name_of(recipe), granule)});
}

}  // namespace

std::optional<Float8Options> float8_options(const JobConfig& config) {
  const Model& model = config.model;
  const bool mx = model.converts_to_mx(), nvfp4 = model.converts_to_nvfp4();
  if (!mx && !nvfp4 && !model.converts_to_float8()) return std::nullopt;
  return Float8Options{recipe_of(config), mx      ? config.mx_linear.emulate
                                          : nvfp4 ? config.nvfp4_linear.emulate
                                                  : config.float8_linear.emulate};
}

std::string float8_section(const JobConfig& config) {
  return config.model.converts_to_mx()      ? "quantize.linear.mx"
         : config.model.converts_to_nvfp4() ? "quantize.linear.nvfp4"
                                            : "quantize.linear.float8";
}

std::string in_words(const Float8Options& options) {
  return fmt::format("{}{}", name_of(options.recipe), options.emulate ? ", emulated" : "");
}

std::set<std::string> float8_weights(const JobConfig& config) {
  std::set<std::string> names;
  if (float8_options(config))
    for (const ParameterRule& rule : float8_layers(config)) names.insert(rule.name);
  return names;
}

std::map<std::string, Float8Options> float8_parameters(const JobConfig& config) {
  std::map<std::string, Float8Options> parameters;
  for (const std::string& name : float8_weights(config)) parameters[name] = *float8_options(config);
  if (const std::optional<Float8Options> options = float8_expert_options(config))
    for (const ParameterRule& rule : float8_experts(config)) parameters[rule.name] = *options;
  return parameters;
}

std::map<std::string, std::size_t> float8_products(const JobConfig& config) {
  std::map<std::string, std::size_t> products;
  if (float8_options(config)) products["linear_layers"] = float8_layers(config).size();
  if (float8_expert_options(config)) products["experts"] = float8_experts(config).size();
  return products;
}

std::vector<BrokenRule> broken_float8(const JobConfig& config, const ShareDegrees& degrees) {
  BrokenRules broken;
  if (find_model_spec(config.model.name) == nullptr) return broken;
  if (float8_expert_options(config)) check_experts(config, broken);
  const std::optional<Float8Options> options = float8_options(config);
  if (!options) return broken;
  if (config.model.converts_to_mx() || config.model.converts_to_nvfp4()) check_mx_or_nvfp4(config, broken);
  const std::vector<ParameterRule> layers = float8_layers(config);
  if (layers.empty()) {
    broken.push_back({{filter_key(config), recipe_key(config), "model.converters", "model.flavor"},
                      fmt::format("no linear layer is computed in float8 \"{}\": {}",
                                  name_of(options->recipe), fmt::join(left_out(config), "; "))});
    return broken;
  }
  check_parts(config, layers, degrees.tensor, broken);
  check_tokens(config, layers, degrees, broken);
  return broken;
}

std::string float8_summary(const JobConfig& config) {
  const std::optional<Float8Options> options = float8_options(config);
  if (!options) return "";
  std::string text = fmt::format("float8: {}, {} of {} linear layers", in_words(*options),
                                 float8_weights(config).size(), linear_layers(config).size());
  for (const std::string& modules : left_out(config)) text += "; not " + modules;
  return text;
}

std::vector<std::string> float8_warnings(const JobConfig& config) {
  std::vector<std::string> warnings;
  if (!config.model.converts_to_float8()) return warnings;
  const std::vector<ParameterRule> all = find_model_spec(config.model.name)->parameters(config.model.sizes);
  for (const std::string& name : config.float8_linear.filter_fqns) {
    const auto has_name = [&](const ParameterRule& rule) { return is_named({name}, rule); };
    if (name == kAutomatic || std::any_of(all.begin(), all.end(), has_name)) continue;
    // Names in other programs for the head of the model.
    const bool head = name == "lm_head" || name == "head";
    warnings.push_back(fmt::format(
        "{}: \"{}\" names no module of this model, so it keeps none in its precision{}", filter_key(config),
        name, head ? " (did you mean output?)" : did_you_mean(name, names_for_filters(all))));
  }
  return warnings;
}

}  // namespace rondo
