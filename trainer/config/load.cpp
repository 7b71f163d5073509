// Assignments from the file and then from flags are one list, and the later one wins; that is all of the
// precedence. What names the model is assigned in a pass of its own, since it decides which sizes exist and
// what their defaults are. A problem is recorded and reading goes on; the key is marked as broken, so that no
// rule between keys asks about it. Rules between keys come last.
#include "trainer/config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/config/rules.h"
#include "trainer/config/schema/keys.h"
#include "trainer/config/schema/unsupported.h"
#include "trainer/hugging_face/config.h"

namespace rondo {
namespace {

class Loader {
 public:
  explicit Loader(Problems& problems) : problems_(problems) {}

  JobConfig load(const std::vector<Assignment>& assignments) {
    const auto names_model = [](const Assignment& assignment) {
      return assignment.key == "model.name" || assignment.key == "model.flavor" ||
             assignment.key == "model.hf_config";
    };
    for (const Assignment& assignment : assignments)
      if (names_model(assignment)) assign(assignment);
    if (config_.model.hf_config.empty())
      choose_model();
    else
      take_hugging_face_model();
    for (const Assignment& assignment : assignments)
      if (!names_model(assignment)) assign(assignment);
    check_sizes_count("model.flavor");
    check_sizes_count("model.hf_config");
    check_rules(config_, origins_, problems_);
    return config_;
  }

 private:
  void report(const Assignment& assignment, const std::string& rule) {
    problems_.add(assignment.place, assignment.shown + ": " + rule);
    origins_.broken.insert(assignment.key);
  }

  void report_choice(const std::string& key, const std::string& value,
                     const std::vector<std::string>& known) {
    const std::string rule =
        fmt::format("no such {}{}; allowed: {}", key_of(key) == "name" ? "model" : "flavor",
                    did_you_mean(value, known), fmt::join(known, ", "));
    if (const auto found = origins_.assigned.find(key); found != origins_.assigned.end())
      report(found->second, rule);
    else
      problems_.add("default", fmt::format("{} = \"{}\": {}", key, value, rule));
  }

  void choose_model() {
    model_ = find_model_spec(config_.model.name);
    if (model_ == nullptr) {
      std::vector<std::string> names;
      for (const ModelSpec& model : model_specs()) names.push_back(model.name);
      report_choice("model.name", config_.model.name, names);
      origins_.broken.insert("model.name");
      return;
    }
    begin_with(model_);
    std::vector<std::string> names;
    for (const Flavor& flavor : model_->flavors) {
      names.push_back(flavor.name);
      if (flavor.name == config_.model.flavor) return apply_flavor(flavor);
    }
    report_choice("model.flavor", config_.model.flavor, names);
  }

  void begin_with(const ModelSpec* model) {
    model_ = model;
    for (const Field& field : *model_->fields) config_.model.sizes[field.name] = field.default_value;
  }

  // From here on the sizes say all, so that a resolved file needs no other.
  void take_hugging_face_model() {
    std::filesystem::path file = std::exchange(config_.model.hf_config, "");
    if (std::filesystem::is_directory(file)) file /= "config.json";
    const Assignment& named = origins_.assigned.at("model.hf_config");
    const auto counts = [&](const char* key) {  // a flag wins over a file
      const auto other = origins_.assigned.find(key);
      return other != origins_.assigned.end() && (other->second.from_flag || !named.from_flag);
    };
    if (counts("model.flavor"))
      report(origins_.assigned.at("model.flavor"),
             "has no effect beside model.hf_config; leave one of them out");
    hugging_face::ModelConfig read;
    try {
      read = hugging_face::read_config(file).config;
    } catch (const Error& error) {
      report(named, error.what());
      return choose_model();
    }
    if (counts("model.name") && config_.model.name != read.model)
      report(origins_.assigned.at("model.name"),
             fmt::format("but {} is of the model {}; leave one of them out", file.string(), read.model));
    config_.model.name = read.model;
    begin_with(find_model_spec(read.model));
    for (const auto& [size, value] : read.sizes) config_.model.sizes[size] = value;
    flavor_sizes_ = config_.model.sizes;
  }

  void apply_flavor(const Flavor& flavor) {
    Problems own;
    for (const Assignment& size : read_toml(flavor.toml, "models/sizes", own)) {
      const Field* field = find_field(*model_->fields, size.key);
      RONDO_ASSERT(field != nullptr, "flavor " + flavor.name + " sets " + size.key + ", which is no field");
      std::string rule;
      config_.model.sizes[size.key] = read_value(size, *field, rule);
      RONDO_ASSERT(rule.empty(), "flavor " + flavor.name + ": " + size.shown + ": " + rule);
    }
    RONDO_ASSERT(own.empty(), "flavor " + flavor.name + " is not valid TOML");
    flavor_sizes_ = config_.model.sizes;
  }

  // A resolved file sets every size, so that another flavor on the command line would silently do nothing.
  void check_sizes_count(const std::string& key) {
    const auto given = origins_.assigned.find(key);
    if (given == origins_.assigned.end() || !given->second.from_flag) return;
    if (flavor_sizes_.empty() || config_.model.sizes == flavor_sizes_) return;
    for (const auto& [name, value] : flavor_sizes_)
      if (!origins_.assigned.contains("model." + name)) return;
    report(given->second,
           "has no effect, because the file sets every size of the model; remove the sizes from its [model] "
           "section");
  }

  void assign(const Assignment& assignment) {
    if (is_section(assignment.key))
      return report(
          assignment,
          fmt::format("is a section; write [{0}] and its keys below, or --{0}.key=value", assignment.key));
    const std::string_view section_name = section_of(assignment.key), name = key_of(assignment.key);
    for (const Section& section : sections())
      if (section.name == section_name)
        if (const Field* field = find_field(*section.fields, name))
          return store(assignment, *field, section.in(config_));
    for (const UnsupportedKey& key : unsupported_keys())
      if (key.section == section_name && key.field.name == name) return check_unsupported(assignment, key);
    if (section_name == "model") {
      if (model_ == nullptr) return;  // which sizes there are is not known; the name is reported
      if (const Field* field = find_field(*model_->fields, name)) return store(assignment, *field, nullptr);
    }
    report(assignment, "unknown key" + suggest_key(assignment.key));
  }

  // `object`: the section's struct; nullptr: the model's sizes.
  void store(const Assignment& assignment, const Field& field, void* object) {
    if (field.rule.flag_only && !assignment.from_flag)
      return report(assignment, "is a flag and not a key of a file");
    std::string rule;
    const FieldValue value = read_value(assignment, field, rule);
    if (!rule.empty()) return report(assignment, rule);
    origins_.broken.erase(assignment.key);
    origins_.assigned[assignment.key] = assignment;
    if (object != nullptr)
      field.set(object, value);
    else
      config_.model.sizes[field.name] = value;
  }

  void check_unsupported(const Assignment& assignment, const UnsupportedKey& key) {
    Field field = key.field;
    if (key.behind_switch) field.rule.unsupported.clear();
    std::string rule;
    read_value(assignment, field, rule);
    if (!rule.empty()) report(assignment, rule);
  }

  Problems& problems_;
  JobConfig config_;
  Origins origins_;
  const ModelSpec* model_ = nullptr;
  FieldValues flavor_sizes_;  // before any override
};

}  // namespace

JobConfig load_config(const std::vector<std::string>& args) {
  Problems problems;
  const std::vector<Assignment> flags = read_flags(args, problems);
  std::vector<Assignment> all;
  const auto file = std::find_if(flags.rbegin(), flags.rend(), [](const Assignment& flag) {
    return flag.key == "job.config_file" && !flag.flag_text.empty();
  });
  if (file != flags.rend()) all = read_toml_file(file->flag_text, file->place + ": " + file->shown, problems);
  all.insert(all.end(), flags.begin(), flags.end());
  const JobConfig config = Loader(problems).load(all);
  problems.throw_if_any();
  return config;
}

}  // namespace rondo
