// What a compilation may depend on besides the graph: plain data, filled by the trainer. Passes read it and
// nothing else, so the same graph and options give the same result everywhere.
#pragma once

#include <string>
#include <vector>

namespace rondo {

struct CompileOptions {
  // Names of passes; "default" stands for the default list. Their order says nothing: the pipeline's order is
  // fixed.
  std::vector<std::string> passes = {"default"};
  std::vector<std::string> disable_passes;
  std::string numerics = "exact";  // "exact" or "rounds": whether passes that change rounding may run
  std::string device = "cpu";      // "cpu" or "cuda"
};

}  // namespace rondo
