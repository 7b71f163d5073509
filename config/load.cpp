// Reads files and flags into one list of assignments, in which the later one wins. Keys that name
// the model are assigned first, since the model decides which sizes exist and their defaults. A
// problem is recorded, its key is marked as broken, and reading continues; rules between keys skip
// broken keys and are checked last. Problems in a section that is switched off become notes, since
// torchtitan accepts such files.
#include "config/load.h"

#include <fmt/format.h>

#include <utility>

#include "config/derived/device.h"
#include "config/model_choice.h"
#include "config/notes.h"
#include "config/rules.h"
#include "config/schema/keys.h"
#include "config/schema/unsupported.h"
#include "launch/options.h"
#include "support/error.h"

namespace rondo {
namespace {

class Loader {
 public:
  explicit Loader(Problems& problems) : problems_(problems) {}

  JobConfig load(const std::vector<Assignment>& assignments, std::optional<TargetDevice> device) {
    const auto names_model = [](const Assignment& assignment) {
      return assignment.key == "model.name" || assignment.key == "model.flavor" ||
             assignment.key == "model.hf_config";
    };
    for (const Assignment& assignment : assignments) last_[assignment.key] = &assignment;
    for (const Assignment& assignment : assignments)
      if (names_model(assignment)) assign(assignment);
    model_.choose();
    for (const Assignment& assignment : assignments)
      if (!names_model(assignment)) assign(assignment);
    model_.complete();
    check_rules(config_, origins_, device ? *device : device_for_passes(), problems_);
    take_notes();
    model_.name_flavor();
    for (const auto& [key, assignment] : origins_.assigned)
      config_.origins[key] = assignment.from_flag ? assignment.shown : assignment.place;
    return config_;
  }

 private:
  // Resolves the device without the machine's GPUs: a missing GPU is no mistake of the
  // configuration.
  TargetDevice device_for_passes() const {
    return config_.job.device ? *config_.job.device : device_of(config_);
  }

  // Returns whether the key's section is on. A switch always counts.
  bool counts(const std::string& key) const {
    if (key_of(key).starts_with("enable")) return true;
    for (const Section& section : sections())
      if (section.name == section_of(key)) return !section.is_off(config_);
    return true;
  }

  void take_notes() {
    for (const std::string& line :
         problems_.set_aside([this](const std::string& key) { return !counts(key); }))
      config_.notes.push_back("without effect because the section is switched off: " + line);
    for (std::string& note : notes_on(config_, origins_)) config_.notes.push_back(std::move(note));
  }

  // `key`: the key whose value is broken, if any.
  void report(const Assignment& assignment, const std::string& rule, const std::string& key = "") {
    origins_.refuse(assignment, rule, problems_, key);
  }

  // Ignores a value that a later one replaces.
  void report_value(const Assignment& assignment, const std::string& rule) {
    if (last_.at(assignment.key) == &assignment) report(assignment, rule, assignment.key);
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
      if (key.section == section_name && key.field.name == name) return take_torchtitans(assignment, key);
    if (section_name == "model") {
      if (model_.model() == nullptr) return;  // reported already
      if (const Field* field = find_field(*model_.model()->fields, name))
        return store(assignment, *field, nullptr);
    }
    const std::string& word = assignment.shown;
    if (assignment.from_flag && launch::serves_flag(word.substr(0, word.find(' '))))
      return report(assignment, "is a flag of the launcher: `rondo launch " + word + " -- train ...`");
    report(assignment, problems_.are_many() ? "unknown key" : unknown_key(assignment.key, model_.model()));
  }

  // `object`: the section's struct; nullptr: the model's sizes.
  void store(const Assignment& assignment, const Field& field, void* object) {
    if (field.rule.flag_only && !assignment.from_flag)
      return report(assignment, "is a flag and not a key of a file");
    std::string rule;
    const FieldValue value = read_value(assignment, field, rule);
    if (!rule.empty()) return report_value(assignment, rule);
    origins_.broken.erase(assignment.key);
    origins_.assigned[assignment.key] = assignment;
    if (object != nullptr)
      field.set(object, value);
    else
      config_.model.sizes[field.name] = value;
  }

  void take_torchtitans(const Assignment& assignment, const UnsupportedKey& key) {
    origins_.torchtitans.emplace_back(assignment, &key);
    if (key.fate != Fate::refused) return;
    std::string rule;
    read_value(assignment, key.field, rule);
    if (!rule.empty()) report_value(assignment, rule);
  }

  Problems& problems_;
  JobConfig config_;
  Origins origins_;
  std::map<std::string, const Assignment*> last_;  // by key: the assignment that wins
  ModelChoice model_{config_, origins_, problems_};
};

}  // namespace

JobConfig load_config(const std::vector<std::string>& args, std::optional<TargetDevice> device) {
  Problems problems;
  const std::vector<Assignment> flags = read_flags(args, problems);
  std::vector<ConfigFile> files;
  for (const Assignment& flag : flags)
    if (flag.key == "job.config_file" && !flag.flag_text.empty())
      files.push_back({flag.flag_text, flag.place + ": " + flag.shown});
  std::vector<Assignment> assignments = read_toml_files(files, problems);
  assignments.insert(assignments.end(), flags.begin(), flags.end());
  JobConfig config = Loader(problems).load(assignments, device);
  problems.throw_if_any();
  return config;
}

JobConfig load_config_to_run(const std::vector<std::string>& args) {
  JobConfig config = load_config(args);
  device_of(config);
  return config;
}

}  // namespace rondo
