#include "models/hugging_face/size_names.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

// An object {"rope_type": ...}.
void take_rope_object(const std::string& name, const Json& rope, const RopeScaling& scaling,
                      const Fields& fields, FieldValues& sizes, FieldsReader& reader,
                      std::vector<std::string>& problems) {
  if (!rope.is_object()) return reader.fail(name, rope, "must be an object");
  FieldsReader inner(rope, problems, name + ".");
  inner.take_size("rope_theta", fields, "rope_theta", sizes);
  const Json* older = inner.take("type");
  const Json* type = inner.take("rope_type");
  if (type == nullptr) type = older;
  if (type == nullptr) {
    inner.require("rope_type");
  } else if (*type == scaling.type) {
    take_sizes(inner, scaling.sizes, fields, sizes);
    if (scaling.more) scaling.more(inner);
  } else if (*type != "default") {
    return inner.fail("rope_type", *type,
                      std::string("not in this version; default and ") + scaling.type + " are");
  }
  inner.take_only("partial_rotary_factor", 1.0, "a rotation of a part of each head is");
  // Any of them might change the frequencies.
  for (const std::string& unknown : inner.unknown())
    inner.fail(unknown, rope.at(unknown), "no field of this rope_type");
}

}  // namespace

void take_sizes(FieldsReader& reader, std::span<const SizeName> names, const Fields& fields,
                FieldValues& sizes) {
  for (const SizeName& size : names)
    if (!size.required || reader.require(size.theirs) != nullptr)
      reader.take_size(size.theirs, fields, size.ours, sizes);
}

void take_rope(FieldsReader& reader, const RopeScaling& scaling, const Fields& fields, FieldValues& sizes,
               std::vector<std::string>& problems) {
  sizes["rope_theta"] = 10000.0;  // where the file does not say, as in transformers
  sizes["rope_scaling_factor"] = 1.0;
  reader.take_size("rope_theta", fields, "rope_theta", sizes);
  const Json* older = reader.take("rope_scaling");
  const Json* parameters = reader.take("rope_parameters");
  if (older != nullptr && parameters != nullptr && *older != *parameters)
    return reader.fail("rope_scaling", *older, "says something else than rope_parameters; keep one");
  if (parameters != nullptr)
    take_rope_object("rope_parameters", *parameters, scaling, fields, sizes, reader, problems);
  else if (older != nullptr)
    take_rope_object("rope_scaling", *older, scaling, fields, sizes, reader, problems);
}

std::string described(const SizeProblem& problem, std::span<const SizeName> names,
                      std::span<const SizeName> rope_names, const FieldValues& sizes) {
  const std::string& blamed = problem.keys.front();
  std::string theirs = "model." + blamed;
  for (const std::span<const SizeName>& list : {rope_names, names})
    for (const SizeName& size : list)
      if (size.ours == blamed) theirs = size.theirs;
  const auto value = sizes.find(blamed);
  return theirs + " = " + to_toml(value == sizes.end() ? FieldValue{} : value->second) + ": " + problem.rule;
}

}  // namespace rondo::hugging_face
