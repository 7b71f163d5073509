// Opens named ranges around the parts of a step, for a profile: a pipeline's action, the function,
// the phase, each module on the path, and collectives by name. LibTorch's profiler nests its own
// events, one per op, in them.
//
//   train_step > backward > layers.0 > layers.0.attention > layers.0.attention.wq > aten::mm
//
// On a GPU the same ranges are NVTX ranges, which tools such as Nsight Systems show.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/execute/executor.h"
#include "support/scope.h"

namespace rondo {

// Returns the ranges of a module's path, outermost first. A number belongs to the name before it:
// "layers.0.attention" is {"layers.0", "layers.0.attention"}.
std::vector<std::string> module_levels(std::string_view path);

// Opens ranges for the executors of this thread during its lifetime. At most one per thread.
class ModuleRanges final : public RunObserver, public ScopeObserver {
 public:
  ModuleRanges();
  ~ModuleRanges();
  ModuleRanges(const ModuleRanges&) = delete;
  ModuleRanges& operator=(const ModuleRanges&) = delete;

  void run_begins(const std::string& function, const ir::Graph* graph) override;
  void node_begins(const ir::Graph& graph, const ir::Node& node) override;
  void run_ends() override;
  void action_begins(const std::string& action) override;
  void action_ends() override;
  void module_changed(const std::string& path) override;  // called in eager runs
  void block_opened(const std::string&) override {}

 private:
  struct Range;
  void move_to(Phase phase, const std::string& module);
  void open(std::string name);
  void close_to(std::size_t depth);

  std::vector<std::unique_ptr<Range>> open_;  // outermost first
  std::size_t function_ = 0;  // index of the function's range: 1 inside an action, otherwise 0
  bool in_eager_run_ = false;
};

}  // namespace rondo
