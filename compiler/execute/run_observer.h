// Reports the position of an executor in its step: always to the crash report, the record of
// collectives and the progress notes, and to a profile while one runs. Plain C++.
#pragma once

#include <functional>
#include <string>

#include "compiler/ir/ir.h"

namespace rondo {

// Observes the runs of all executors on the thread that installed it. A segment that a device
// replays is one launch without nodes. A run with several parts that the host calls begins once for
// each part.
class RunObserver {
 public:
  // `graph` is nullptr for an eager run, which reports no nodes but opens scopes (support/scope.h).
  virtual void run_begins(const std::string& function, const ir::Graph* graph) = 0;
  virtual void node_begins(const ir::Graph& graph, const ir::Node& node) = 0;
  virtual void run_ends() = 0;
  // An action is a part of a step, with or without runs in it: "1F3", "0SEND_F1". One at a time.
  virtual void action_begins(const std::string& action) = 0;
  virtual void action_ends() = 0;

 protected:
  ~RunObserver() = default;
};
// Installs an observer, at most one a thread; nullptr removes it. REQUIRES: it outlives its
// installation.
void set_run_observer(RunObserver* observer);

// An executor's run, from its first node to its end in every case. Without an observer, a node
// costs some twenty stores and a branch.
class ObservedRun {
 public:
  explicit ObservedRun(const ir::Graph& graph);
  explicit ObservedRun(const std::string& function);  // an eager run
  ~ObservedRun();
  ObservedRun(const ObservedRun&) = delete;
  ObservedRun& operator=(const ObservedRun&) = delete;

  // `node` is about to run.
  void reached(const ir::Node& node) const;

 private:
  RunObserver* observer_;
  const ir::Graph* graph_ = nullptr;
};

// An action, from its begin to its end. `name` is called only for an observer.
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
