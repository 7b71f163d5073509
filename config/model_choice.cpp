#include "config/model_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/hugging_face/config.h"
#include "config/schema/keys.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {

void ModelChoice::choose() {
  if (config_.model.hf_config.empty())
    choose_model();
  else
    take_hugging_face_model();
}

void ModelChoice::complete() {
  check_sizes_count("model.flavor");
  check_sizes_count("model.hf_config");
  fit_flavor_to_rows();
}

void ModelChoice::refuse(const Assignment& assignment, const std::string& rule) {
  origins_.refuse(assignment, rule, problems_);
}

void ModelChoice::report_choice(const std::string& key, const std::string& value,
                                const std::vector<std::string>& choices) {
  const std::string rule = fmt::format(
      "no such {}{}; allowed: {}{}", key_of(key) == "name" ? "model" : "flavor", did_you_mean(value, choices),
      fmt::join(choices, ", "),
      value.find("_flex") == value.npos && value.find("_varlen") == value.npos
          ? ""
          : "; torchtitan's flavors with flex or varlen attention, which keep documents apart, are "
            "those without it and training.document_attention = true");
  if (const auto assignment = origins_.assigned.find(key); assignment != origins_.assigned.end())
    refuse(assignment->second, rule);
  else
    problems_.add("default", fmt::format("{} = \"{}\": {}", key, value, rule));
}

void ModelChoice::choose_model() {
  model_ = find_model_spec(config_.model.name);
  if (model_ == nullptr) {
    std::vector<std::string> names;
    for (const ModelSpec& model : model_specs()) names.push_back(model.name);
    report_choice("model.name", config_.model.name, names);
    origins_.broken.insert("model.name");
    return;
  }
  begin_with(model_);
  if (config_.model.flavor.empty()) return;
  std::vector<std::string> names;
  for (const Flavor& flavor : model_->flavors) {
    names.push_back(flavor.name);
    if (flavor.name == config_.model.flavor) return apply_flavor(flavor);
  }
  report_choice("model.flavor", config_.model.flavor, names);
}

void ModelChoice::begin_with(const ModelSpec* model) {
  model_ = model;
  for (const Field& field : *model_->fields) config_.model.sizes[field.name] = field.default_value;
}

// Clears model.hf_config: the resolved file has all sizes instead.
void ModelChoice::take_hugging_face_model() {
  std::filesystem::path file = std::exchange(config_.model.hf_config, "");
  if (std::filesystem::is_directory(file)) file /= "config.json";
  const Assignment& named = origins_.assigned.at("model.hf_config");
  const auto counts = [&](const char* key) {  // a flag wins over a file
    const auto other = origins_.assigned.find(key);
    return other != origins_.assigned.end() && (other->second.from_flag || !named.from_flag);
  };
  if (counts("model.flavor"))
    refuse(origins_.assigned.at("model.flavor"),
           "has no effect together with model.hf_config; remove one of them");
  hugging_face::ModelConfig read;
  try {
    read = hugging_face::read_config(file).config;
  } catch (const Error& error) {
    refuse(named, error.what());
    return choose_model();
  }
  if (counts("model.name") && config_.model.name != read.model)
    refuse(origins_.assigned.at("model.name"),
           fmt::format("but {} is of the model {}; remove one of them", file.string(), read.model));
  config_.model.name = read.model;
  begin_with(find_model_spec(read.model));
  for (const auto& [size, value] : read.sizes) {
    config_.model.sizes[size] = value;
    config_.origins["model." + size] = file.string();
  }
  flavor_sizes_ = config_.model.sizes;
}

// Returns the sizes that a flavor sets.
FieldValues ModelChoice::sizes_of(const Flavor& flavor) const {
  Problems own;
  FieldValues sizes;
  for (const Assignment& size : read_toml(flavor.toml, "models/sizes", own)) {
    const Field* field = find_field(*model_->fields, size.key);
    RONDO_ASSERT(field != nullptr, "flavor " + flavor.name + " sets " + size.key + ", which is not a field");
    std::string rule;
    sizes[size.key] = read_value(size, *field, rule);
    RONDO_ASSERT(rule.empty(), "flavor " + flavor.name + ": " + size.shown + ": " + rule);
  }
  RONDO_ASSERT(own.empty(), "flavor " + flavor.name + " is not valid TOML");
  return sizes;
}

void ModelChoice::apply_flavor(const Flavor& flavor) {
  for (const auto& [size, value] : sizes_of(flavor)) {
    config_.model.sizes[size] = value;
    config_.origins["model." + size] = "flavor " + flavor.name;
  }
  flavor_sizes_ = config_.model.sizes;
}

std::int64_t ModelChoice::longest_row() const {
  return std::max(config_.training.seq_len, config_.validation.enable ? config_.validation.seq_len : 0);
}

// Leaves sizes that are set, and sizes of a Hugging Face folder, as they are.
void ModelChoice::fit_flavor_to_rows() {
  if (model_ == nullptr || origins_.assigned.contains("model.hf_config")) return;
  const std::int64_t longest = longest_row();
  for (const auto& [size, value] : model_->for_rows(config_.model.sizes, longest)) {
    if (value == config_.model.sizes.at(size) || origins_.assigned.contains("model." + size)) continue;
    config_.model.sizes[size] = value;
    config_.origins["model." + size] = fmt::format("rows of at most {} tokens", longest);
  }
}

bool ModelChoice::sets_every_size() const {
  return std::all_of(model_->fields->begin(), model_->fields->end(),
                     [&](const Field& field) { return origins_.assigned.contains("model." + field.name); });
}

// Reports a flavor or hf_config flag that has no effect because the file sets every size.
void ModelChoice::check_sizes_count(const std::string& key) {
  const auto assignment = origins_.assigned.find(key);
  if (assignment == origins_.assigned.end() || !assignment->second.from_flag) return;
  if (flavor_sizes_.empty() || config_.model.sizes == flavor_sizes_ || !sets_every_size()) return;
  refuse(assignment->second,
         "has no effect because the file sets every size of the model; remove the sizes from its [model] "
         "section");
}

void ModelChoice::name_flavor() {
  if (!problems_.empty() || (origins_.assigned.contains("model.flavor") && !sets_every_size())) return;
  FieldValues defaults;
  for (const Field& field : *model_->fields) defaults[field.name] = field.default_value;
  const FieldValues plain = model_->plain(config_.model.sizes);
  const auto is_it = [&](const Flavor& flavor) {
    FieldValues sizes = sizes_of(flavor);
    sizes.insert(defaults.begin(), defaults.end());
    return model_->plain(sizes) == plain || model_->plain(model_->for_rows(sizes, longest_row())) == plain;
  };
  const auto flavor = std::find_if(model_->flavors.begin(), model_->flavors.end(), is_it);
  const std::string name = flavor == model_->flavors.end() ? "" : flavor->name;
  if (config_.model.flavor != name) config_.origins["model.flavor"] = "the sizes of the model";
  config_.model.flavor = name;
}

}  // namespace rondo
