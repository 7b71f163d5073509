// optimizer.parameter_groups: parameters that the optimizer treats in another way than the rest.
//
// An entry is names and settings: "*norm*+tok_embeddings: weight_decay=0", "output: lr_factor=0.5
// weight_decay=0". Names are those of compile.fsdp_buckets (bucket_patterns.h). A parameter belongs to the
// first entry that names it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct ParameterGroup {
  std::vector<std::string> names;
  double lr_factor = 1;                // on the learning rate of the step
  std::optional<double> weight_decay;  // unset: optimizer.weight_decay
};

// In their order. What is broken, "must ...", goes to `rule`, if that is asked for.
std::vector<ParameterGroup> read_parameter_groups(const std::vector<std::string>& entries,
                                                  std::string* rule = nullptr);

// The place of the first group that has the parameter; groups.size() where none has.
std::size_t group_of(const std::vector<ParameterGroup>& groups, std::string_view parameter);

}  // namespace rondo
