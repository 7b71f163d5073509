#include "support/scope.h"

#include <utility>

namespace rondo {
namespace {

thread_local std::string path;
thread_local Phase phase_now = Phase::forward;
thread_local ScopeObserver* observer = nullptr;

void notify() {
  if (observer != nullptr) observer->module_changed(path);
}

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

const std::string& module_path() { return path; }
Phase current_phase() { return phase_now; }

ModuleScope::ModuleScope(std::string_view name) : outer_length_(path.size()) {
  if (!path.empty()) path += '.';
  path += name;
  notify();
}

ModuleScope::~ModuleScope() {
  path.resize(outer_length_);
  notify();
}

PathScope::PathScope(const std::string& new_path) : outer_(std::move(path)) {
  path = new_path;
  notify();
}

PathScope::~PathScope() {
  path = std::move(outer_);
  notify();
}

BlockScope::BlockScope(std::string_view name) : module_(name) {
  if (observer != nullptr) observer->block_opened(path);
}

PhaseScope::PhaseScope(Phase phase) : outer_(phase_now) {
  phase_now = phase;
  notify();
}
PhaseScope::~PhaseScope() { phase_now = outer_; }

void set_scope_observer(ScopeObserver* new_observer) { observer = new_observer; }

}  // namespace rondo
