#include "compiler/execute/run_observer.h"

#include "support/crash_report.h"
#include "support/watch/progress.h"

namespace rondo {
namespace {

thread_local RunObserver* installed = nullptr;

}  // namespace

void set_run_observer(RunObserver* observer) { installed = observer; }

ObservedRun::ObservedRun(const ir::Graph& graph) : observer_(installed), graph_(&graph) {
  if (observer_ != nullptr) observer_->run_begins(graph.name, graph_);
}

ObservedRun::ObservedRun(const std::string& function) : observer_(installed) {
  if (observer_ != nullptr) observer_->run_begins(function, nullptr);
}

ObservedRun::~ObservedRun() {
  set_current_work({});
  progress::running_nothing();
  if (observer_ != nullptr) observer_->run_ends();
}

void ObservedRun::reached(const ir::Node& node) const {
  set_current_work({node.op.c_str(), node.module.c_str(), node.phase});
  progress::running(node.op, node.module, node.phase);
  if (observer_ != nullptr) observer_->node_begins(*graph_, node);
}

ObservedAction::ObservedAction(const std::function<std::string()>& name) : observer_(installed) {
  if (observer_ != nullptr) observer_->action_begins(name());
}

ObservedAction::~ObservedAction() {
  if (observer_ != nullptr) observer_->action_ends();
}

}  // namespace rondo
