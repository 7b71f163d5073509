// How the layers of a model are divided over the stages of a pipeline.
//
// A layout's text is Megatron's: E the embedding, t a layer, m a layer of multi-token prediction, L the head
// with the loss, | the end of a stage, x*3 and (x|)*3 repetitions; commas and blanks mean nothing. So
// "Et*3|(tt|)*29,m|L" has 32 stages. A stage may be empty.
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

// What embedding and head cost, in layers, as torchtitan's pipeline_parallel_first_stage_less_layers and
// last_stage_less_layers say it.
struct EndCosts {
  double embedding = 1, head = 1;
};
double cost_of(const StageLayers& stage, const EndCosts& ends);  // in layers

// "" where `text` is a layout, of which `stages` are then the stages, or the rule that it breaks: "must ...".
std::string read_layout(std::string_view text, std::vector<StageLayers>& stages);
// Such a text, with repeated letters and stages: "Et*3|(t*4|)*2t*3L".
std::string print_layout(const std::vector<StageLayers>& stages);

// The split of `layers` equal layers into stages whose largest cost is least; of those the most even one,
// with the larger stages first. Empty where there are fewer layers than stages need: one each, but for the
// first and the last. REQUIRES: layers and stages of 1 or more.
std::vector<StageLayers> split_layers(std::int32_t layers, std::int32_t stages, const EndCosts& ends);

}  // namespace rondo::pipeline
