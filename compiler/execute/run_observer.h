// Where an executor is in its step, for whoever asks: the crash report, the record of collectives and the
// notes of progress always, a profile while it runs. Plain C++.
#pragma once

#include <functional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo {

// Told of the runs of all executors on the thread that installed it. Segments that a device replays are one
// launch without nodes; a run of which several are issued begins several times.
class RunObserver {
 public:
  // `graph`: nullptr of an eager run, which tells no nodes but opens scopes (support/scope.h).
  virtual void run_begins(const std::string& function, const ir::Graph* graph) = 0;
  virtual void node_begins(const ir::Graph& graph, const ir::Node& node) = 0;
  virtual void run_ends() = 0;
  // A part of a step with runs in it, or none: "1F3", "0SEND_F1". One at a time.
  virtual void action_begins(const std::string& action) = 0;
  virtual void action_ends() = 0;

 protected:
  ~RunObserver() = default;
};
// REQUIRES: at most one a thread, which outlives its installation. nullptr removes it.
void set_run_observer(RunObserver* observer);

// An executor's run, from its first node to its end, whichever way that comes. Without an observer a node
// costs some twenty stores and a branch.
class ObservedRun {
 public:
  explicit ObservedRun(const ir::Graph& graph);
  explicit ObservedRun(const std::string& function);  // that runs eagerly
  ~ObservedRun();
  ObservedRun(const ObservedRun&) = delete;
  ObservedRun& operator=(const ObservedRun&) = delete;

  // `node` is about to run.
  void reached(const ir::Node& node) const;

 private:
  RunObserver* observer_;
  const ir::Graph* graph_ = nullptr;
};

// An action, from its begin to its end. `name` is asked only where somebody observes.
class ObservedAction {
 public:
  explicit ObservedAction(const std::function<std::string()>& name);
  ~ObservedAction();
  ObservedAction(const ObservedAction&) = delete;
  ObservedAction& operator=(const ObservedAction&) = delete;

 private:
  RunObserver* observer_;
};

}  // namespace rondo
