// Runs mistakes on ranks (mutant_ranks.cpp), and returns the verdict of each.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// The job that ranks run with a mistake: a small model of a configuration, in a layout of
// `rondo prove`.
struct MutantJob {
  std::string_view name;
  std::string_view model;  // "llama3_debug"
  std::string_view layout;
};
const std::vector<MutantJob>& mutant_jobs();

struct Verdict {
  std::string job, name, found;  // "refused: RULE", "differs by 2.0e-01", "fails: WHY", "escapes"
  bool refused() const { return found.starts_with("refused"); }
  bool caught() const { return found != "escapes"; }
};
// By kind: "hand", "machine".
using Verdicts = std::map<std::string, std::vector<Verdict>>;

// Runs all hand-written mistakes, and in each job `sample` generated mistakes, drawn by `seed`.
Verdicts played(int sample, int seed);

}  // namespace rondo
