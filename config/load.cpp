// Reads files and flags into one list of assignments, in which the later one wins. Keys that name
// the model are assigned first, since the model decides which sizes exist and their defaults. A
// problem is recorded, its key is marked as broken, and reading continues; rules between keys skip
// broken keys and are checked last. Problems in a section that is switched off become notes, since
// torchtitan accepts such files.
#include "config/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/hugging_face/config.h"
#include "config/derived/batch.h"
#include "config/derived/device.h"
#include "config/derived/dtypes.h"
#include "config/derived/pipeline_layout.h"
#include "config/derived/schedule_steps.h"
#include "config/rules.h"
#include "config/schema/keys.h"
#include "config/schema/unsupported.h"
#include "config/torchtitan.h"
#include "launch/options.h"
#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/text/nearest.h"

namespace rondo {
namespace {

bool counts_in_pipelines(const std::string& key) {
  return (key.starts_with("parallelism.pipeline_parallel_") && key_of(key) != "pipeline_parallel_degree") ||
         key == "parallelism.module_fqns_per_model_part";
}

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
    if (config_.model.hf_config.empty())
      choose_model();
    else
      take_hugging_face_model();
    for (const Assignment& assignment : assignments)
      if (!names_model(assignment)) assign(assignment);
    check_sizes_count("model.flavor");
    check_sizes_count("model.hf_config");
    fit_flavor_to_rows();
    check_rules(config_, origins_, device ? *device : device_for_passes(), problems_);
    take_notes();
    name_flavor();
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
    const LrScheduler& schedule = config_.lr_scheduler;
    if (const ScheduleSteps steps = schedule_steps(config_); schedule.warmup_steps > steps.warmup)
      config_.notes.push_back(
          fmt::format("lr_scheduler.warmup_steps = {} is longer than {} = {}: the learning rate rises "
                      "through the whole run",
                      schedule.warmup_steps,
                      schedule.total_steps ? "lr_scheduler.total_steps" : "training.steps", steps.warmup));
    if (const OptimizerImplementation named = config_.optimizer.implementation;
        named == OptimizerImplementation::foreach || named == OptimizerImplementation::for_loop)
      config_.notes.push_back(
          fmt::format("optimizer.implementation = \"{}\": the update is part of the graph, as with \"{}\"; "
                      "the numbers are "
                      "the same",
                      name_of(named), name_of(Optimizer().implementation)));
    for (const char* key : {"training.mixed_precision_param", "training.mixed_precision_reduce"})
      if (const auto given = origins_.assigned.find(key); given != origins_.assigned.end())
        if (config_.training.dtype == Precision::float64 && given->second.from_flag)
          config_.notes.push_back(fmt::format(
              "without effect: {} (training.dtype = \"float64\" is the type of all numbers)", key));
    if (const auto given = origins_.assigned.find("optimizer.bf16_rounding");
        given != origins_.assigned.end() && given->second.from_flag &&
        moment_dtype(config_) != Precision::bfloat16)
      config_.notes.push_back(
          "without effect: optimizer.bf16_rounding (neither parameters nor moments are in bfloat16)");
    for (const auto& [key, given] : origins_.assigned)
      if (given.from_flag && counts_in_pipelines(key) && !config_.parallelism.has_pipeline())
        config_.notes.push_back(
            fmt::format("without effect: {} (parallelism.pipeline_parallel_degree = 1)", key));
    if (overlapped_microbatches(config_) > 1 && config_.parallelism.expert_parallel_degree > 1 &&
        config_.parallelism.expert_parallel_comm_backend == ExpertExchange::exact_counts)
      config_.notes.push_back(
          "parallelism.overlapped_microbatches hides no exchange of experts by exact counts, for which the "
          "host waits; parallelism.expert_parallel_comm_backend = \"static\" is hidden");
    if (std::string note = few_microbatches(config_, known_microbatches(config_)); !note.empty())
      config_.notes.push_back(std::move(note));
    for (std::string& note : torchtitan_notes(config_, origins_)) config_.notes.push_back(std::move(note));
  }

  // `key`: the key whose value is broken, if any.
  void report(const Assignment& assignment, const std::string& rule, const std::string& key = "") {
    problems_.add(assignment.place, assignment.shown + ": " + rule, key);
    origins_.broken.insert(assignment.key);
  }

  // Ignores a value that a later one replaces.
  void report_value(const Assignment& assignment, const std::string& rule) {
    if (last_.at(assignment.key) == &assignment) report(assignment, rule, assignment.key);
  }

  void report_choice(const std::string& key, const std::string& value,
                     const std::vector<std::string>& known) {
    const std::string rule = fmt::format(
        "no such {}{}; allowed: {}{}", key_of(key) == "name" ? "model" : "flavor", did_you_mean(value, known),
        fmt::join(known, ", "),
        value.find("_flex") == value.npos && value.find("_varlen") == value.npos
            ? ""
            : "; torchtitan's flavors with flex or varlen attention, which keep documents apart, are "
              "those without it and training.document_attention = true");
    if (const auto given = origins_.assigned.find(key); given != origins_.assigned.end())
      report(given->second, rule);
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
    if (config_.model.flavor.empty()) return;
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

  // Clears model.hf_config: the resolved file has all sizes instead.
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
             "has no effect together with model.hf_config; remove one of them");
    hugging_face::ModelConfig read;
    try {
      read = hugging_face::read_config(file).config;
    } catch (const Error& error) {
      report(named, error.what());
      return choose_model();
    }
    if (counts("model.name") && config_.model.name != read.model)
      report(origins_.assigned.at("model.name"),
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
  FieldValues sizes_of(const Flavor& flavor) const {
    Problems own;
    FieldValues sizes;
    for (const Assignment& size : read_toml(flavor.toml, "models/sizes", own)) {
      const Field* field = find_field(*model_->fields, size.key);
      RONDO_ASSERT(field != nullptr,
                   "flavor " + flavor.name + " sets " + size.key + ", which is not a field");
      std::string rule;
      sizes[size.key] = read_value(size, *field, rule);
      RONDO_ASSERT(rule.empty(), "flavor " + flavor.name + ": " + size.shown + ": " + rule);
    }
    RONDO_ASSERT(own.empty(), "flavor " + flavor.name + " is not valid TOML");
    return sizes;
  }

  void apply_flavor(const Flavor& flavor) {
    for (const auto& [size, value] : sizes_of(flavor)) {
      config_.model.sizes[size] = value;
      config_.origins["model." + size] = "flavor " + flavor.name;
    }
    flavor_sizes_ = config_.model.sizes;
  }

  std::int64_t longest_row() const {
    return std::max(config_.training.seq_len, config_.validation.enable ? config_.validation.seq_len : 0);
  }

  // Leaves sizes that are set, and sizes of a Hugging Face folder, as they are.
  void fit_flavor_to_rows() {
    if (model_ == nullptr || origins_.assigned.contains("model.hf_config")) return;
    const std::int64_t longest = longest_row();
    for (const auto& [size, value] : model_->for_rows(config_.model.sizes, longest)) {
      if (value == config_.model.sizes.at(size) || origins_.assigned.contains("model." + size)) continue;
      config_.model.sizes[size] = value;
      config_.origins["model." + size] = fmt::format("rows of at most {} tokens", longest);
    }
  }

  bool sets_every_size() const {
    return std::all_of(model_->fields->begin(), model_->fields->end(),
                       [&](const Field& field) { return origins_.assigned.contains("model." + field.name); });
  }

  // Reports a flavor or hf_config flag that has no effect because the file sets every size.
  void check_sizes_count(const std::string& key) {
    const auto given = origins_.assigned.find(key);
    if (given == origins_.assigned.end() || !given->second.from_flag) return;
    if (flavor_sizes_.empty() || config_.model.sizes == flavor_sizes_ || !sets_every_size()) return;
    report(given->second,
           "has no effect because the file sets every size of the model; remove the sizes from its [model] "
           "section");
  }

  // Sets the flavor to the one that has the model's sizes, or to "". A flavor that was named stays,
  // unless every size is set, as in a resolved file.
  void name_flavor() {
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
      if (model_ == nullptr) return;  // unknown model, reported already
      if (const Field* field = find_field(*model_->fields, name)) return store(assignment, *field, nullptr);
    }
    const std::string& word = assignment.shown;
    if (assignment.from_flag && launch::serves_flag(word.substr(0, word.find(' '))))
      return report(assignment, "is a flag of the launcher: `rondo launch " + word + " -- train ...`");
    report(assignment, problems_.are_many() ? "unknown key" : unknown_key(assignment.key, model_));
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
  const ModelSpec* model_ = nullptr;
  FieldValues flavor_sizes_;  // before any override
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
