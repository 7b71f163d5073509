// One map of all keys, built once from the three tables that own them. Suggestions follow the order
// of common mistakes: the right name in a wrong section, then a misspelt name in the right section,
// then any near key. If the section is misspelt, the repaired key is suggested only if it exists. A
// size that the run's model lacks is never suggested.
#include "config/schema/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "config/schema/job_config.h"
#include "config/schema/unsupported.h"
#include "models/parts/model_spec.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

struct Known {
  std::map<std::string, const Field*, std::less<>> fields;
  std::set<std::string, std::less<>> sections;
  std::set<std::string, std::less<>> sizes;  // sizes of some model, which other models may lack

  void add(const std::string& section, const Field& field) {
    fields.emplace(section + "." + field.name, &field);
    for (std::size_t dot = section.size(); dot != std::string::npos; dot = section.rfind('.', dot - 1))
      sections.insert(section.substr(0, dot));
  }
};

const Known& known() {
  static const Known all = [] {
    Known index;
    for (const Section& section : sections())
      for (const Field& field : *section.fields) index.add(section.name, field);
    for (const ModelSpec& model : model_specs())
      for (const Field& field : *model.fields) {
        index.add("model", field);
        index.sizes.insert("model." + field.name);
      }
    for (const UnsupportedKey& key : unsupported_keys()) index.add(key.section, key.field);
    return index;
  }();
  return all;
}

// Returns false for a size that `model` lacks. With nullptr every key is accepted.
bool takes_key(const ModelSpec* model, std::string_view key) {
  return model == nullptr || !known().sizes.contains(key) ||
         find_field(*model->fields, key_of(key)) != nullptr;
}

// Suggests the nearest of `names`, which are keys of the same section.
std::string suggest_in_section(std::string_view key, const std::vector<std::string>& names) {
  const auto near = nearest(key_of(key), names);
  return near ? fmt::format(" (did you mean {}.{}?)", section_of(key), *near) : "";
}

// Suggests a key for a misspelt name, or the section of a right name (`training.lr`, `--steps`).
std::string suggest_among_keys(std::string_view key, const ModelSpec* model) {
  std::vector<std::string> all, same_section;
  for (const auto& [name, field] : known().fields) {
    if (!takes_key(model, name)) continue;
    all.push_back(name);
    if (section_of(name) == section_of(key)) same_section.push_back(std::string(key_of(name)));
  }
  for (const std::string& name : all)
    if (key_of(name) == key_of(key)) return " (did you mean " + name + "?)";
  if (std::string near = suggest_in_section(key, same_section); !near.empty()) return near;
  return did_you_mean(key, all);
}

// Returns "llama3 has it" or "llama3, qwen3 and olmo2 have it". REQUIRES: `owners` is not empty.
std::string owners_text(const std::vector<std::string>& owners) {
  if (owners.size() == 1) return owners.front() + " has it";
  return fmt::format("{} and {} have it", fmt::join(owners.begin(), owners.end() - 1, ", "), owners.back());
}

}  // namespace

const Field* known_field(std::string_view key) {
  const auto it = known().fields.find(key);
  return it == known().fields.end() ? nullptr : it->second;
}

bool is_section(std::string_view name) { return known().sections.contains(name); }

std::string suggest_key(std::string_view key, const ModelSpec* model) {
  const std::string_view section = section_of(key).empty() ? key : section_of(key);
  if (is_section(section)) return suggest_among_keys(key, model);
  const std::vector<std::string> names(known().sections.begin(), known().sections.end());
  if (const auto near = nearest(section, names)) {
    if (section == key) return " (did you mean " + *near + "?)";
    const std::string repaired = *near + "." + std::string(key_of(key));
    if (known_field(repaired) && takes_key(model, repaired)) return " (did you mean " + repaired + "?)";
  }
  return suggest_among_keys(key, model);
}

std::string unknown_key(std::string_view key, const ModelSpec* model) {
  if (takes_key(model, key)) return "unknown key" + suggest_key(key, model);
  std::vector<std::string> owners, sizes;
  for (const ModelSpec& other : model_specs())
    if (find_field(*other.fields, key_of(key)) != nullptr) owners.push_back(other.name);
  for (const Field& size : *model->fields) sizes.push_back(size.name);
  return fmt::format("{} has no {}; {}{}", model->name, key, owners_text(owners),
                     suggest_in_section(key, sizes));
}

std::string_view section_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view key_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace rondo
