// optimizer.parameter_groups: parameters with settings of their own.
//
// An entry has names and settings: "*norm*: weight_decay=0", "output: lr_factor=0.5", or
// "*.wk: optimizer=AdamW". Names are as in compile.fsdp_buckets (bucket_patterns.h). A parameter
// belongs to the first entry that matches it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct ParameterGroup {
  std::vector<std::string> names;
  double lr_factor = 1;                // factor of the step's learning rate
  std::optional<double> weight_decay;  // unset: optimizer.weight_decay
  bool by_adamw = false;               // "optimizer=AdamW": not by Muon
};

// Returns the groups in order. Sets `rule`, if given, to the broken rule ("must ...").
std::vector<ParameterGroup> read_parameter_groups(const std::vector<std::string>& entries,
                                                  std::string* rule = nullptr);

// Returns the index of the first group that has the parameter, or groups.size().
std::size_t group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter);

}  // namespace rondo
