#include <fmt/format.h>

#include "models/embedded_sizes.h"
#include "models/models.h"
#include "models/parts/description.h"

namespace rondo {
namespace {

std::vector<Flavor> flavors_of(std::string_view model) {
  std::vector<Flavor> flavors;
  for (const EmbeddedSizes& file : kEmbeddedSizes)
    if (file.model == model) flavors.push_back({std::string(file.flavor), file.toml});
  return flavors;
}

template <class Config>
ModelSpec spec_of(const Config&) {
  const auto problems = [](const FieldValues& values) { return from_values<Config>(values).problems(); };
  const auto shared = [](const FieldValues& values) { return from_values<Config>(values).shared(); };
  const auto parameters = [](const FieldValues& values) {
    const Description description = from_values<Config>(values).description();
    return described_parameters(description, whole_of(description)).rules();
  };
  const auto masks = [](const FieldValues& values) {
    return attention_masks(from_values<Config>(values).description());
  };
  const auto plain = [](const FieldValues& values) { return from_values<Config>(values).plain(); };
  const auto for_rows = [](const FieldValues& values, [[maybe_unused]] std::int64_t longest) {
    if constexpr (requires(const Config& config) { config.for_rows(longest); })
      return to_values(from_values<Config>(values).for_rows(longest));
    else
      return values;
  };
  const auto small = [](const FieldValues& values) { return to_values(from_values<Config>(values).small()); };
  return {Config::kName,
          &Config::fields(),
          flavors_of(Config::kName),
          problems,
          shared,
          parameters,
          masks,
          plain,
          for_rows,
          small,
          &Config::hugging_face_type()};
}

}  // namespace

std::string division(std::int64_t whole, std::int64_t by) {
  return fmt::format("{} = {} * {} + {}", whole, by, whole / by, whole % by);
}

const std::vector<ModelSpec>& model_specs() {
  static const std::vector<ModelSpec> specs =
      std::apply([](const auto&... model) { return std::vector{spec_of(model)...}; }, Models{});
  return specs;
}

const ModelSpec* find_model_spec(std::string_view name) {
  for (const ModelSpec& model : model_specs())
    if (model.name == name) return &model;
  return nullptr;
}

}  // namespace rondo
