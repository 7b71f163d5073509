// Reads and writes config.json by a model's tables. rope_theta and the rotary scaling have their
// own tables: transformers 4 (rope_theta, rope_scaling) and transformers 5 (rope_parameters) store
// them in different places. A file may have both if they say the same.
#include "models/hugging_face/model_type.h"

#include <map>
#include <utility>

#include "support/text/field_json.h"

namespace rondo::hugging_face {
namespace {

using Json = nlohmann::json;

void take_sizes(FieldsReader& reader, const std::vector<SizeName>& names, const Fields& fields,
                FieldValues& sizes) {
  for (const SizeName& size : names)
    if (!size.required || reader.require(size.theirs))
      reader.take_size(size.theirs, fields, size.ours, sizes);
}

// Reads an object {"rope_type": ...}. Without a scaling the factor is 1.
void take_rope_object(const JsonView& rope, const RopeScaling& scaling, const Fields& fields,
                      FieldValues& sizes) {
  if (!rope.raw().is_object()) return rope.refuse("must be an object");
  FieldsReader inner(rope);
  inner.take_size("rope_theta", fields, "rope_theta", sizes);
  const auto older = inner.take("type"), newer = inner.take("rope_type");
  const auto& type = newer ? newer : older;
  if (newer && older && newer->raw() != older->raw())  // transformers 4 reads the older, 5 the newer
    newer->refuse("must be the same as type = " + older->raw().dump() + "; remove the wrong one");
  if (!type) {
    inner.require("rope_type");
  } else if (scaling.type != nullptr && type->raw() == scaling.type) {
    take_sizes(inner, scaling.sizes, fields, sizes);
    if (scaling.read_rest != nullptr) scaling.read_rest(inner);
  } else if (type->raw() == "default") {
    if (scaling.type != nullptr) sizes["rope_scaling_factor"] = 1.0;
  } else {
    const std::string known =
        scaling.type == nullptr ? "default is" : std::string("default and ") + scaling.type + " are";
    return type->refuse("not in this version; " + known);
  }
  inner.take_only("partial_rotary_factor", 1.0, "a rotation of a part of each head is");
  // An unknown field could change the frequencies.
  for (const JsonView& unknown : inner.unknown())
    if (!unknown.raw().is_null()) unknown.refuse("no field of this rope_type");
}

// Collects the fields of a file that describe the rotation. If two of them differ, transformers 4
// and 5 compute different models.
class RopeStatements {
 public:
  RopeStatements(const RopeScaling& scaling, const Fields& fields, std::vector<std::string>& problems)
      : fields_(fields), problems_(problems), names_(scaling.sizes) {
    names_.push_back({"rope_theta", "rope_theta"});
  }

  // `prefix`: of the places of these sizes. Reports sizes that an earlier call has with another
  // value.
  void add(const std::string& prefix, const FieldValues& sizes) {
    const auto factor = sizes.find("rope_scaling_factor");
    const bool is_scaled = factor != sizes.end() && factor->second != FieldValue(1.0);
    for (const SizeName& name : names_) {
      const auto size = sizes.find(name.ours);
      if (size == sizes.end() && (!is_scaled || name.required)) continue;
      const FieldValue& value =
          size == sizes.end() ? find_field(fields_, name.ours)->default_value : size->second;
      const std::string place = prefix + name.theirs;
      const auto [earlier, is_new] = statements_.try_emplace(name.ours, place, value);
      const auto& [other_place, other] = earlier->second;
      if (!is_new && other != value)
        problems_.push_back(place + " = " + to_toml(value) + ": must be " + other_place + " = " +
                            to_toml(other) + "; remove the wrong one");
    }
  }

 private:
  const Fields& fields_;
  std::vector<std::string>& problems_;
  std::vector<SizeName> names_;
  std::map<std::string, std::pair<std::string, FieldValue>> statements_;  // place and value, by our name
};

void take_rope(FieldsReader& reader, const RopeScaling& scaling, const Fields& fields, FieldValues& sizes) {
  sizes.try_emplace("rope_theta", 10000.0);  // transformers' default
  if (scaling.type != nullptr) sizes["rope_scaling_factor"] = 1.0;
  RopeStatements statements(scaling, fields, reader.problems());
  const auto add = [&](const std::string& prefix, const FieldValues& said) {
    statements.add(prefix, said);
    for (const auto& [size, value] : said) sizes[size] = value;
  };
  FieldValues said;
  reader.take_size("rope_theta", fields, "rope_theta", said);
  add("", said);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto rope = reader.take(name);
    if (!rope) continue;
    said.clear();
    take_rope_object(*rope, scaling, fields, said);
    add(std::string(name) + ".", said);
  }
}

// Describes a violated rule, and names the first of its keys as Hugging Face does.
std::string described(const SizeProblem& problem, const ModelType& type, const FieldValues& sizes) {
  const std::string& blamed = problem.keys.front();
  std::string theirs = "model." + blamed;
  for (const auto* names : {&type.rope_scaling.sizes, &type.sizes})
    for (const SizeName& size : *names)
      if (size.ours == blamed) theirs = size.theirs;
  const auto value = sizes.find(blamed);
  return theirs + " = " + to_toml(value == sizes.end() ? FieldValue{} : value->second) + ": " + problem.rule;
}

void put_sizes(const std::vector<SizeName>& names, const FieldValues& sizes, Json& object) {
  for (const SizeName& size : names) object[size.theirs] = json_of(sizes.at(size.ours));
}

}  // namespace

FieldValues read_sizes(const ModelSpec& model, FieldsReader& reader) {
  const ModelType& type = *model.hugging_face_type;
  const std::size_t before = reader.problems().size();
  FieldValues sizes = type.defaults;
  take_sizes(reader, type.sizes, *model.fields, sizes);
  take_rope(reader, type.rope_scaling, *model.fields, sizes);
  for (const FixedField& field : type.fixed) reader.take_only(field.name, field.only, field.others);
  if (type.read_rest != nullptr) type.read_rest(reader, sizes);
  if (reader.problems().size() == before)
    for (const SizeProblem& problem : model.problems(sizes))
      reader.problems().push_back(described(problem, type, sizes));
  return sizes;
}

Json write_sizes(const ModelSpec& model, const FieldValues& sizes) {
  const ModelType& type = *model.hugging_face_type;
  const FieldValues plain = model.plain(sizes);
  Json config = {{"architectures", Json::array({type.architecture})}, {"model_type", type.name}};
  put_sizes(type.sizes, plain, config);
  put_sizes({{"rope_theta", "rope_theta"}}, plain, config);
  Json& scaling = config["rope_scaling"];  // null: no scaling
  if (type.rope_scaling.type != nullptr && plain.at("rope_scaling_factor") != FieldValue(1.0)) {
    scaling["rope_type"] = type.rope_scaling.type;
    put_sizes(type.rope_scaling.sizes, plain, scaling);
  }
  for (const FixedField& field : type.fixed)
    if (field.written) config[field.name] = field.only;
  if (type.write_rest != nullptr) type.write_rest(plain, config);
  return config;
}

}  // namespace rondo::hugging_face
