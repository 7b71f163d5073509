// Layers are chosen as torchtitan does (components/quantization/float8.py), by sizes of whole weights. Ranks
// that share a layer must then be able to multiply their parts.
#include "trainer/config/float8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "models/parts/model_spec.h"

namespace rondo {
namespace {

constexpr const char *kRecipe = "quantize.linear.float8.recipe_name",
                     *kFilter = "quantize.linear.float8.filter_fqns",
                     *kTensor = "parallelism.tensor_parallel_degree";
constexpr const char* kAutomatic = "auto_filter_small_kn";

Float8Recipe recipe_of(const JobConfig& config) {
  return float8_recipe_named(config.float8_linear.recipe_name.value_or(""))
      .value_or(Float8Recipe::tensorwise);
}

std::string module_of(const ParameterRule& rule) { return rule.name.substr(0, rule.name.rfind('.')); }

// Where float8 is not faster on an H100, as torchao has measured (its _auto_filter_for_recipe).
bool is_small(Float8Recipe recipe, std::int64_t out, std::int64_t in) {
  if (recipe == Float8Recipe::tensorwise) return in <= 4096 && out <= 1024;
  return out <= 2048 || in <= 1024 || (out <= 4096 && in <= 2048);
}

std::vector<ParameterRule> linear_layers(const JobConfig& config) {
  const ModelSpec* model = find_model_spec(config.model.name);
  std::vector<ParameterRule> rules;
  if (model != nullptr) rules = model->parameters(config.model.sizes);
  std::erase_if(rules, [](const ParameterRule& rule) { return !rule.linear; });
  return rules;
}

// "" where its products are of float8.
std::string why_not_float8(const JobConfig& config, const ParameterRule& rule) {
  const std::string module = module_of(rule);
  const Float8Recipe recipe = recipe_of(config);
  const std::int64_t out = rule.sizes[0], in = rule.sizes[1], granule = float8_granule(recipe);
  bool automatic = false;
  for (const std::string& name : config.float8_linear.filter_fqns) {
    automatic = automatic || name == kAutomatic;
    if (module.find(name) != module.npos) return fmt::format("named by {}", kFilter);
  }
  if (out % granule != 0 || in % granule != 0) return fmt::format("sizes are no multiples of {}", granule);
  return automatic && is_small(recipe, out, in) ? "too small to be faster" : "";
}

std::vector<ParameterRule> float8_layers(const JobConfig& config) {
  std::vector<ParameterRule> rules = linear_layers(config);
  std::erase_if(rules, [&](const ParameterRule& rule) { return !why_not_float8(config, rule).empty(); });
  return rules;
}

}  // namespace

std::optional<Float8Options> float8_options(const JobConfig& config) {
  if (!config.model.converts_to_float8()) return std::nullopt;
  return Float8Options{recipe_of(config), config.float8_linear.emulate};
}

std::set<std::string> float8_weights(const JobConfig& config) {
  std::set<std::string> names;
  if (float8_options(config))
    for (const ParameterRule& rule : float8_layers(config)) names.insert(rule.name);
  return names;
}

std::vector<BrokenRule> broken_float8(const JobConfig& config, const ShareDegrees& degrees) {
  std::vector<BrokenRule> broken;
  const std::optional<Float8Options> options = float8_options(config);
  if (!options) return broken;
  const std::int64_t granule = float8_granule(options->recipe), tensor = degrees.tensor;
  const std::string_view recipe = float8_recipe_name(options->recipe);
  if (find_model_spec(config.model.name) == nullptr) return broken;
  const std::vector<ParameterRule> rules = float8_layers(config);
  if (rules.empty())
    broken.push_back({{kFilter, kRecipe, "model.converters", "model.flavor"},
                      fmt::format("leaves no linear layer to float8 \"{}\", which needs sizes that are "
                                  "multiples of {}; see rondo help quantize.linear.float8",
                                  recipe, granule)});
  bool of_own_tokens = false;
  for (const ParameterRule& rule : rules) {
    of_own_tokens = of_own_tokens || rule.style == ParallelStyle::replicated;
    if (rule.style == ParallelStyle::replicated) continue;
    const std::int64_t size = rule.sizes[rule.style == ParallelStyle::colwise ? 0 : 1];
    if (size % tensor != 0 || size / tensor % granule == 0) continue;
    broken.push_back(
        {{kTensor, kRecipe, kFilter, "model.name"},
         fmt::format("{} = {} leaves {} of the {} of {} to a rank, and float8 \"{}\" needs a "
                     "multiple of {}; take fewer ranks, another recipe, or name the layer in {}",
                     kTensor, tensor, size / tensor, size, module_of(rule), recipe, granule, kFilter)});
    break;
  }
  const std::int64_t sequences = microbatch_size(config),
                     tokens = sequences * config.training.seq_len / degrees.context,
                     own = of_own_tokens ? tokens / tensor : tokens;
  if (!rules.empty() && own % granule != 0)
    broken.push_back(
        {{"training.seq_len", "training.local_batch_size", kRecipe, kTensor},
         fmt::format("a layer meets {} tokens of a microbatch of {} sequences of {} on a rank, and float8 "
                     "\"{}\" needs a multiple of {}",
                     own, sequences, config.training.seq_len, recipe, granule)});
  return broken;
}

std::string float8_summary(const JobConfig& config) {
  const std::optional<Float8Options> options = float8_options(config);
  if (!options) return "";
  std::map<std::string, std::vector<std::string>> left_out;  // modules by reason
  const std::vector<ParameterRule> rules = linear_layers(config);
  std::size_t converted = 0;
  for (const ParameterRule& rule : rules) {
    const std::string why = why_not_float8(config, rule);
    if (why.empty())
      ++converted;
    else
      left_out[why].push_back(module_of(rule));
  }
  std::string text = fmt::format("float8: {}{}, {} of {} linear layers", float8_recipe_name(options->recipe),
                                 options->emulate ? ", emulated" : "", converted, rules.size());
  constexpr std::size_t kShown = 3;
  for (const auto& [why, modules] : left_out) {
    const std::size_t shown = std::min(kShown, modules.size());
    text +=
        fmt::format("; not {}{} ({})", fmt::join(modules.begin(), modules.begin() + shown, ", "),
                    shown < modules.size() ? fmt::format(" and {} more", modules.size() - shown) : "", why);
  }
  return text;
}

}  // namespace rondo
