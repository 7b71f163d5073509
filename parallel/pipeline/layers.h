// The distribution of a model's layers over the stages of a pipeline.
//
// A layout's text is in Megatron's format. E is the embedding, t a layer, m a layer of multi-token
// prediction, L the head with the loss, and | the end of a stage. x*3 and (x|)*3 are repetitions;
// commas and spaces are ignored. So "Et*3|(tt|)*29,m|L" has 32 stages. A stage may be empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::pipeline {

struct StageLayers {
  bool embedding = false, loss = false;
  std::int32_t layers = 0, prediction_layers = 0;
  bool operator==(const StageLayers&) const = default;
};

// Costs of embedding and head in layers, as in torchtitan's
// pipeline_parallel_first_stage_less_layers and last_stage_less_layers.
struct EndCosts {
  double embedding = 1, head = 1;
};
double cost_of(const StageLayers& stage, const EndCosts& ends);  // in layers

// Parses a layout into `stages`. Returns "" or the rule that `text` breaks: "must ...".
std::string read_layout(std::string_view text, std::vector<StageLayers>& stages);
// Prints a layout, with repeated letters and stages: "Et*3|(t*4|)*2t*3L".
std::string print_layout(const std::vector<StageLayers>& stages);

// Splits `layers` equal layers into stages so that the largest cost is minimal. Among such splits
// it returns the most even one, with the larger stages first. Every stage but the first and the
// last gets one layer or more; where there are too few layers, the result is empty. REQUIRES:
// layers >= 1 and stages >= 1.
std::vector<StageLayers> split_layers(std::int32_t layers, std::int32_t stages, const EndCosts& ends);

}  // namespace rondo::pipeline
