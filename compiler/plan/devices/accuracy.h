// Errors of estimated speed against published runs, by class of job
// (docs/results/backcast_2026-11-27.md). Plain data.
#pragma once

#include <cstdint>
#include <string_view>

namespace rondo::ir {

// A job belongs to the last class of this list that fits it.
enum class JobClass : std::uint8_t {
  one_node,
  several_nodes,
  tensor_parallel,
  float8,
  long_context,  // rows of kLongContext tokens and more
  pipeline,
  experts,
};
inline constexpr std::int64_t kLongContext = 32768;

struct Accuracy {
  std::string_view of;    // "dense models on one node"
  int percent_of_80 = 0;  // the size of the error that 80 % of the class's runs do not exceed
};

// Returns the accuracy of a class. benchmarks/backcast.py learned it without the source of each
// run.
Accuracy accuracy_of(JobClass job);

}  // namespace rondo::ir
