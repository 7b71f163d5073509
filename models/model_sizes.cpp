#include "models/parts/model_sizes.h"

#include "models/deepseek_v3/deepseek_v3_config.h"
#include "models/embedded_sizes.h"
#include "models/llama3/llama3_config.h"

namespace rondo {
namespace {

std::vector<Flavor> flavors_of(const std::string& model) {
  std::vector<Flavor> flavors;
  for (const EmbeddedSizes& file : kEmbeddedSizes)
    if (file.model == model) flavors.push_back({std::string(file.flavor), file.toml});
  return flavors;
}

template <class Config>
ModelSizes describe(const std::string& name) {
  const auto problems = [](const FieldValues& values) { return from_values<Config>(values).problems(); };
  const auto plain = [](const FieldValues& values) { return from_values<Config>(values).plain(); };
  const auto shared = [](const FieldValues& values) { return from_values<Config>(values).shared(); };
  return {name, &Config::fields(), flavors_of(name), problems, shared, plain};
}

}  // namespace

const std::vector<ModelSizes>& model_sizes() {
  static const std::vector<ModelSizes> models = {
      describe<Llama3Config>("llama3"),
      describe<DeepSeekV3Config>("deepseek_v3"),
  };
  return models;
}

const ModelSizes* find_model_sizes(std::string_view name) {
  for (const ModelSizes& model : model_sizes())
    if (model.name == name) return &model;
  return nullptr;
}

}  // namespace rondo
