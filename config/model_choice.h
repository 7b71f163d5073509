// Chooses the model of a configuration and its sizes, which a flavor or a Hugging Face config.json
// gives and later keys override.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/rules.h"
#include "models/parts/model_spec.h"

namespace rondo {

class ModelChoice {
 public:
  // The arguments must outlive this; the functions below change them and add problems.
  ModelChoice(JobConfig& config, Origins& origins, Problems& problems)
      : config_(config), origins_(origins), problems_(problems) {}

  // Sets the sizes that model.name and model.flavor, or model.hf_config, name. REQUIRES: these keys
  // are assigned.
  void choose();
  // Returns the model; nullptr: it is unknown, and a problem says so.
  const ModelSpec* model() const { return model_; }
  // Completes sizes that no key has set, and refuses a flag that names sizes without effect.
  // REQUIRES: all keys are assigned.
  void complete();
  // Sets the flavor to the one that has the model's sizes, or to "". A flavor that was named stays,
  // unless every size is set, as in a resolved file.
  void name_flavor();

 private:
  void refuse(const Assignment& assignment, const std::string& rule);
  void report_choice(const std::string& key, const std::string& value,
                     const std::vector<std::string>& choices);
  void choose_model();
  void begin_with(const ModelSpec* model);
  void take_hugging_face_model();
  FieldValues sizes_of(const Flavor& flavor) const;
  void apply_flavor(const Flavor& flavor);
  std::int64_t longest_row() const;
  void fit_flavor_to_rows();
  bool sets_every_size() const;
  void check_sizes_count(const std::string& key);

  JobConfig& config_;
  Origins& origins_;
  Problems& problems_;
  const ModelSpec* model_ = nullptr;
  FieldValues flavor_sizes_;  // before any override
};

}  // namespace rondo
