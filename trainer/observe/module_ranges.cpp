// Open ranges are a stack. A change of module closes ranges down to the common prefix of both paths
// and opens the missing ones, so neighbours in one block share its range. Graphs report each node,
// and eager runs report changes of scope; both use the same function. The return node opens
// nothing, since its copies belong to the work before it.
#include "trainer/observe/module_ranges.h"

#include <ATen/record_function.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <cctype>
#include <variant>

#include "compiler/ops/op.h"

namespace rondo {
namespace {

// Returns nullptr without a GPU, according to LibTorch's stubs.
const torch::profiler::impl::ProfilerStubs* nvtx() {
  const auto* stubs = torch::profiler::impl::cudaStubs();
  return stubs->enabled() ? stubs : nullptr;
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "all_gather_into_tensor dp 262144 bytes"
std::string describe_collective(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t first = node.op.find('.') + 1;
  std::string text = node.op.substr(first, node.op.rfind('.') - first);
  for (const ir::Argument& arg : node.args)
    if (const auto* word = std::get_if<std::string>(&arg)) text += " " + *word;
  return text + " " + std::to_string(ir::storage_bytes(graph.value(node.results.at(0)).type)) + " bytes";
}

}  // namespace

struct ModuleRanges::Range {
  explicit Range(std::string text)
      : name(std::move(text)), recorded(at::RecordScope::USER_SCOPE), marked(nvtx()) {
    if (recorded.isActive()) recorded.before(std::string_view(name));
    if (marked != nullptr) marked->rangePush(name.c_str());
  }
  ~Range() {
    if (marked != nullptr) marked->rangePop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  std::string name;
  at::RecordFunction recorded;
  const torch::profiler::impl::ProfilerStubs* marked;
};

std::vector<std::string> module_levels(std::string_view path) {
  std::vector<std::string> levels;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (!levels.empty() && is_number(path.substr(begin, end - begin))) levels.pop_back();
    levels.emplace_back(path.substr(0, end));
    begin = end + 1;
  }
  return levels;
}

ModuleRanges::ModuleRanges() { set_run_observer(this); }

ModuleRanges::~ModuleRanges() {
  run_ends();
  close_to(0);
  set_run_observer(nullptr);
}

void ModuleRanges::run_begins(const std::string& function, const ir::Graph* graph) {
  open(function);
  in_eager_run_ = graph == nullptr;
  if (in_eager_run_) set_scope_observer(this);
}

void ModuleRanges::run_ends() {
  if (in_eager_run_) set_scope_observer(nullptr);
  in_eager_run_ = false;
  close_to(function_);
}

void ModuleRanges::action_begins(const std::string& action) {
  open(action);
  function_ = 1;
}

void ModuleRanges::action_ends() {
  function_ = 0;
  close_to(0);
}

void ModuleRanges::node_begins(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ir::kReturn) return;  // its copies of state belong to the work before it
  move_to(node.phase, node.module);
  if (ir::facts(node.op).effect == ir::Effect::collective_start) open(describe_collective(graph, node));
}

void ModuleRanges::module_changed(const std::string& path) { move_to(current_phase(), path); }

// Closes the ranges that are not on the path to `module`, and opens the missing ones.
void ModuleRanges::move_to(Phase phase, const std::string& module) {
  std::vector<std::string> levels = module_levels(module);
  levels.insert(levels.begin(), phase_name(phase));
  const std::size_t first = function_ + 1;
  std::size_t shared = 0;
  while (first + shared < open_.size() && shared < levels.size() &&
         open_[first + shared]->name == levels[shared])
    ++shared;
  close_to(first + shared);
  for (; shared < levels.size(); ++shared) open(std::move(levels[shared]));
}

void ModuleRanges::open(std::string name) { open_.push_back(std::make_unique<Range>(std::move(name))); }

void ModuleRanges::close_to(std::size_t depth) {
  while (open_.size() > depth) open_.pop_back();
}

}  // namespace rondo
