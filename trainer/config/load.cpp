// Assignments from the file and then from flags are one list, and the later one wins; that is all of the
// precedence. Model and flavor are assigned in a pass of their own, since they decide which sizes exist and
// what their defaults are. A problem is recorded and reading goes on; the key is marked as broken, so that no
// rule between keys asks about it. Rules between keys come last.
#include "trainer/config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/text/nearest.h"
#include "trainer/config/rules.h"
#include "trainer/config/schema/keys.h"
#include "trainer/config/schema/unsupported.h"

namespace rondo {
namespace {

class Loader {
 public:
  explicit Loader(Problems& problems) : problems_(problems) {}

  JobConfig load(const std::vector<Assignment>& assignments) {
    for (const Assignment& assignment : assignments)
      if (assignment.key == "model.name" || assignment.key == "model.flavor") assign(assignment);
    choose_model();
    for (const Assignment& assignment : assignments)
      if (assignment.key != "model.name" && assignment.key != "model.flavor") assign(assignment);
    check_flavor_counts();
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
    for (const Field& field : *model_->fields) config_.model.sizes[field.name] = field.default_value;
    std::vector<std::string> names;
    for (const Flavor& flavor : model_->flavors) {
      names.push_back(flavor.name);
      if (flavor.name == config_.model.flavor) return apply_flavor(flavor);
    }
    report_choice("model.flavor", config_.model.flavor, names);
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
  void check_flavor_counts() {
    const auto flavor = origins_.assigned.find("model.flavor");
    if (flavor == origins_.assigned.end() || !flavor->second.from_flag) return;
    if (flavor_sizes_.empty() || config_.model.sizes == flavor_sizes_) return;
    for (const auto& [name, value] : flavor_sizes_)
      if (!origins_.assigned.contains("model." + name)) return;
    report(flavor->second,
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
