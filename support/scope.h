// The position of the current thread in the model and in the step: module path, block and phase.
// Plain C++, no LibTorch.
//
// Models and the step open scopes; the tracer reads them to label graph nodes. Outside a trace a
// scope costs a string append. All state is per thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// Phases of a step, in their order in a graph.
enum class Phase : std::uint8_t { forward, backward, update };
const char* phase_name(Phase phase);

// Returns the dotted path of the open module scopes, e.g. "layers.3.attention"; empty outside.
const std::string& module_path();
Phase current_phase();

class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  std::size_t outer_length_;
};

// Replaces the whole path: for a backward that works for the module of its forward.
class PathScope {
 public:
  explicit PathScope(const std::string& path);
  ~PathScope();
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  std::string outer_;
};

// A module whose forward the backward may recompute as a unit: a transformer block.
class BlockScope {
 public:
  explicit BlockScope(std::string_view name);

 private:
  ModuleScope module_;
};

class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase outer_;
};

// Notified of the module path after each change on this thread, at the beginning of a phase, and
// for each block that opens. The tracer installs one to map autograd sequence numbers to modules. A
// profile installs one during eager steps. REQUIRES: at most one observer per thread, which
// outlives its installation.
class ScopeObserver {
 public:
  virtual void module_changed(const std::string& path) = 0;
  virtual void block_opened(const std::string& path) = 0;

 protected:
  ~ScopeObserver() = default;
};
void set_scope_observer(ScopeObserver* observer);  // nullptr removes it

}  // namespace rondo
