#include "config/sizes.h"

#include <fmt/format.h>

#include "config/read/assignment.h"
#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/text/fingerprint.h"

namespace rondo {

checkpoint::ModelFacts model_facts(const std::string& name, const FieldValues& sizes) {
  checkpoint::ModelFacts facts{name, "", ""};
  for (const auto& [key, value] : sizes) facts.sizes += fmt::format("{} = {}\n", key, to_toml(value));
  facts.fingerprint = fingerprint_of(facts.name + "\n" + facts.sizes);
  return facts;
}

FieldValues sizes_from_text(const std::string& model, std::string_view text, const std::string& where) {
  const ModelSpec* known = find_model_spec(model);
  if (known == nullptr)
    throw Error(ExitCode::checkpoint,
                fmt::format("{} has the model \"{}\", which this version does not know", where, model));
  Problems problems;
  FieldValues sizes;
  for (const Assignment& line : read_toml(text, where, problems)) {
    const Field* field = find_field(*known->fields, line.key);
    std::string rule = field == nullptr ? "this version of the model has no such size" : "";
    const FieldValue value = field == nullptr ? FieldValue{} : read_value(line, *field, rule);
    if (rule.empty() && field != nullptr) rule = broken_rule(*field, value);
    if (!rule.empty())
      throw Error(ExitCode::checkpoint, fmt::format("{}: model size {}: {}", where, line.shown, rule));
    sizes[line.key] = value;
  }
  if (!problems.empty())
    throw Error(ExitCode::checkpoint, fmt::format("{}: the model's sizes are not valid TOML", where));
  return sizes;
}

}  // namespace rondo
