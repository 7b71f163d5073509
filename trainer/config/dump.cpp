#include "trainer/config/dump.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "models/parts/model_spec.h"
#include "trainer/config/schema/keys.h"

namespace rondo {
namespace {

const void* place_of(const Section& section, const JobConfig& config) {
  return section.in(const_cast<JobConfig&>(config));  // only read
}

void write_line(std::string& out, const std::string& name, const FieldValue& value) {
  if (std::holds_alternative<std::monostate>(value))
    out += fmt::format("# {} is not set\n", name);
  else
    out += fmt::format("{} = {}\n", name, to_toml(value));
}

std::string section_toml(const Section& section, const JobConfig& config) {
  std::string out = fmt::format("\n[{}]\n", section.name);
  for (const Field& field : *section.fields)
    if (!field.rule.flag_only) write_line(out, field.name, field.get(place_of(section, config)));
  if (section.name != "model") return out;
  const ModelSpec* model = find_model_spec(config.model.name);
  if (model == nullptr) return out;
  for (const Field& field : *model->fields)
    if (const auto size = config.model.sizes.find(field.name); size != config.model.sizes.end())
      write_line(out, field.name, size->second);
  return out;
}

}  // namespace

std::string to_toml(const JobConfig& config) {
  std::string out =
      "# The resolved configuration of a run: every key. `rondo train --job.config_file` takes it.\n";
  for (const Section& section : sections()) out += section_toml(section, config);
  return out;
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
