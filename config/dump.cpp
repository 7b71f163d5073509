#include "config/dump.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>

#include "config/schema/keys.h"
#include "models/parts/model_spec.h"
#include "support/printable.h"

namespace rondo {
namespace {

const void* place_of(const Section& section, const JobConfig& config) {
  return section.in(const_cast<JobConfig&>(config));  // only read
}

// Visits each key of a section with its value, in order; for [model] also the sizes.
void for_each_value(const Section& section, const JobConfig& config,
                    const std::function<void(const std::string& name, const FieldValue& value)>& visit) {
  for (const Field& field : *section.fields)
    if (!field.rule.flag_only) visit(field.name, field.get(place_of(section, config)));
  const ModelSpec* model = section.name == "model" ? find_model_spec(config.model.name) : nullptr;
  if (model == nullptr) return;
  for (const Field& field : *model->fields)
    if (const auto size = config.model.sizes.find(field.name); size != config.model.sizes.end())
      visit(field.name, size->second);
}

// Returns where a key's value came from.
using Origin = std::function<std::string(const std::string& key)>;

std::string section_toml(const Section& section, const JobConfig& config, const Origin& origin = nullptr) {
  std::string out = fmt::format("\n[{}]\n", section.name);
  for_each_value(section, config, [&](const std::string& name, const FieldValue& value) {
    out += std::holds_alternative<std::monostate>(value) ? fmt::format("# {} is not set", name)
                                                         : fmt::format("{} = {}", name, to_toml(value));
    out += origin ? fmt::format("  # {}\n", origin(section.name + "." + name)) : "\n";
  });
  return out;
}

std::string whole_toml(const JobConfig& config, const Origin& origin) {
  std::string out = "# The resolved configuration of a run: every key. `rondo train FILE` takes it.\n";
  for (const Section& section : sections()) out += section_toml(section, config, origin);
  return out;
}

}  // namespace

std::string to_toml(const JobConfig& config) { return whole_toml(config, nullptr); }

std::string to_annotated_toml(const JobConfig& config) {
  return whole_toml(config, [&](const std::string& key) {
    const auto it = config.origins.find(key);
    std::string origin = it == config.origins.end() ? "default" : it->second;
    std::replace_if(
        origin.begin(), origin.end(), [](char c) { return c == '\n' || c == '\r'; }, '?');
    return printable(origin);  // TOML has no control characters in comments
  });
}

std::vector<Setting> settings_of(const JobConfig& config) {
  std::vector<Setting> settings;
  for (const Section& section : sections())
    for_each_value(section, config, [&](const std::string& name, const FieldValue& value) {
      if (!std::holds_alternative<std::monostate>(value))
        settings.push_back({section.name + "." + name, to_toml(value)});
    });
  return settings;
}

std::string fingerprint(const JobConfig& config) {
  std::string text;
  for (const Section& section : sections())
    if (section.name != "job") text += section_toml(section, config);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

FieldValue value_at(const JobConfig& config, const std::string& key) {
  const std::string_view section_name = section_of(key), name = key_of(key);
  for (const Section& section : sections())
    if (section.name == section_name)
      if (const Field* field = find_field(*section.fields, name))
        return field->get(place_of(section, config));
  if (section_name != "model") return {};
  const auto size = config.model.sizes.find(std::string(name));
  return size == config.model.sizes.end() ? FieldValue() : size->second;
}

bool operator==(const JobConfig& a, const JobConfig& b) {
  for (const Section& section : sections())
    for (const Field& field : *section.fields)
      if (field.get(place_of(section, a)) != field.get(place_of(section, b))) return false;
  return a.model.sizes == b.model.sizes;
}

}  // namespace rondo
