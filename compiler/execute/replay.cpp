// Recordings are owned by a handle that destroys them, and members are destroyed in reverse order:
// recordings, then the step's tensors, then this executor's share of the pool. So every way out
// ends in the right order.
#include "compiler/execute/replay.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "compiler/execute/planned_step.h"
#include "compiler/ops/op.h"
#include "compiler/ops/segments.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

using at::Tensor;
// Routes this thread's work to the device's stream during its lifetime.
class Turn {
 public:
  explicit Turn(ReplayDevice& device) : device_(device) { device_.enter(); }
  ~Turn() { device_.leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ReplayDevice& device_;
};

class OwnedRecording {
 public:
  OwnedRecording(ReplayDevice& device, ReplayDevice::Recording recording)
      : device_(device), recording_(recording) {}
  ~OwnedRecording() { device_.destroy(recording_); }
  OwnedRecording(const OwnedRecording&) = delete;
  OwnedRecording& operator=(const OwnedRecording&) = delete;

  void launch() const { device_.launch(recording_); }

 private:
  ReplayDevice& device_;
  ReplayDevice::Recording recording_;
};

// The latest call of an instruction, and its room.
struct Calls {
  ReplayDevice::Issued latest;
  std::vector<std::span<char>> room;  // free parts of the arena, known after run 1
};

// Instructions [begin, end): a segment, or calls of the host between two segments.
struct Part {
  std::size_t begin = 0, end = 0;
  std::int64_t segment = 0;  // from 1; 0 for calls of the host
  std::unique_ptr<OwnedRecording> recording;
};

// Returns why a tensor cannot be used in a recording, or "".
std::string unfit(const Tensor& tensor) {
  if (!tensor.defined()) return "not set";
  if (tensor.layout() != at::kStrided) return "a sparse tensor";
  if (tensor.is_quantized()) return "a quantized tensor";
  if (tensor.is_conj() || tensor.is_neg()) return "a tensor with lazy conjugation or negation";
  return "";
}

// Checks the inputs of a graph with segments. The batch may be on the host; state is where the
// graph says.
void check_kinds(const ir::Graph& graph, const std::vector<Tensor>& tensors, bool of_batch,
                 c10::Device device) {
  if (graph.segments.empty()) return;
  std::string problems;
  std::size_t next = 0;
  for (const ir::Input& input : graph.inputs) {
    if ((input.kind == ir::InputKind::batch) != of_batch || next == tensors.size()) continue;
    const Tensor& tensor = tensors[next++];
    std::string problem = unfit(tensor);
    if (problem.empty() && !of_batch && !graph.value(input.value).on_host && tensor.device() != device)
      problem = "on device " + tensor.device().str();
    if (problem.empty() && of_batch && tensor.device() != device && !tensor.device().is_cpu())
      problem = "on device " + tensor.device().str();
    if (!problem.empty())
      problems += fmt::format("\n  {} \"{}\" is {}", ir::input_kind_name(input.kind), input.name, problem);
  }
  if (problems.empty()) return;
  throw Error(ExitCode::graph, fmt::format("{} can be recorded only with dense tensors on {}:{}", graph.name,
                                           device.str(), problems));
}

std::vector<Tensor> checked_state(const ir::Graph& graph, std::vector<Tensor> state, c10::Device device) {
  check_kinds(graph, state, /*of_batch=*/false, device);
  return state;
}

// True for a collective that fails as its group has ended, and not as CUDA forbids a call.
bool is_lost_group(const std::exception& error) {
  return dynamic_cast<const c10::DistError*>(&error) != nullptr &&
         std::string_view(error.what()).find("unhandled cuda error") == std::string_view::npos;
}

// True for collectives, which continue after their call, so that they get no room in the arena.
bool is_collective(const Instruction& instruction) {
  const ir::Effect effect = ir::facts(instruction.node().op).effect;
  return effect == ir::Effect::collective_start || effect == ir::Effect::wait;
}

class Replay final : public Executor {
 public:
  Replay(const ir::Graph& graph, const ir::MemoryPlan& plan, std::shared_ptr<ReplayMemory> memory,
         std::vector<Tensor> state, StepWatch* watch)
      : memory_(std::move(memory)),
        device_(memory_->device()),
        watch_(watch),
        step_(graph, plan, {device_.device(), memory_->arena(), memory_->host(), &memory_->batch()},
              checked_state(graph, std::move(state), device_.device())),
        calls_(step_.instructions().size()) {
    RONDO_ASSERT(graph.segments.empty() || graph.segments == ir::find_segments(graph),
                 "the segments of " + graph.name + " are not those of the pass cudagraph");
    find_parts();
    stats_.instructions = static_cast<std::int64_t>(calls_.size());
    stats_.views = step_.views();
    stats_.segments = static_cast<std::int64_t>(graph.segments.size());
    stats_.batch_bytes = step_.batch_bytes();
    stats_.state_bytes = step_.state_bytes();
    stats_.arena_bytes = plan.arena_bytes;
  }

  // Waits for the device, since a recording may still run, for instance after a failure of
  // the host.
  ~Replay() override {
    try {
      device_.synchronize();
    } catch (const std::exception& error) {
      log_warning(fmt::format("{}: the device failed before its recordings were destroyed: {}",
                              step_.graph().name, error.what()));
    }
  }

  std::vector<Tensor> run(const std::vector<Tensor>& batch) override {
    if (failed_)
      throw Error(ExitCode::graph,
                  step_.graph().name + " failed in an earlier run; further runs are refused");
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    check_kinds(step_.graph(), batch, /*of_batch=*/true, device_.device());
    if (runs_ == 0) stats_.free_bytes_before = device_.free_bytes();
    const Stopwatch started;
    {
      const Turn turn(device_);
      step_.copy_batch_in(batch);
      failed_ = true;
      for (Part& part : parts_) run_part(part);
      if (runs_ == 0) device_.synchronize();  // measures its time and reports its errors here
      failed_ = false;
    }
    if (runs_ == 0) {
      stats_.warm_up_ms = started.milliseconds();
      find_room();
    }
    if (runs_ <= 1) update_stats();
    ++runs_;
    return step_.results();
  }

  const ReplayStats* stats() const override { return &stats_; }

 private:
  void find_parts() {
    const auto& instructions = step_.instructions();
    const std::vector<ir::Segment>& segments = step_.graph().segments;
    std::size_t segment = 0;  // the first that ends after the instruction
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const auto node = static_cast<std::int32_t>(instructions[i]->index());
      while (segment < segments.size() && segments[segment].end <= node) ++segment;
      const bool inside = segment < segments.size() && segments[segment].begin <= node;
      const std::int64_t number = inside ? static_cast<std::int64_t>(segment) + 1 : 0;
      if (parts_.empty() || parts_.back().segment != number) parts_.push_back({i, i, number, nullptr});
      parts_.back().end = i + 1;
      stats_.recorded_ops += inside;
    }
  }

  void run_part(Part& part) {
    if (part.segment == 0) return issue(part);
    if (runs_ > 0 && part.recording == nullptr) record(part);
    if (watch_ != nullptr)
      watch_->launched(
          fmt::format("segment {} of {} of {}", part.segment, stats_.segments, step_.graph().name),
          /*first_run=*/runs_ < 2);
    if (part.recording != nullptr) return part.recording->launch();
    issue(part);
    device_.count_up();
  }

  void issue(const Part& part) {
    const ObservedRun observed(step_.graph());
    for (issued_ = part.begin; issued_ < part.end; ++issued_) {
      Instruction& instruction = *step_.instructions()[issued_];
      observed.reached(instruction.node());
      calls_[issued_].latest = device_.issue(instruction, calls_[issued_].room);
    }
  }

  void record(Part& part) {
    const Stopwatch started;
    bool capturing = false;
    try {
      issued_ = part.begin;
      device_.begin_capture();
      capturing = true;
      issue(part);
      device_.count_up();
      part.recording = std::make_unique<OwnedRecording>(device_, device_.end_capture());
    } catch (const std::exception& error) {
      if (capturing) device_.abandon_capture();
      if (is_lost_group(error)) throw;
      throw Error(ExitCode::graph, not_recorded(part, error.what()));
    }
    stats_.capture_ms += started.milliseconds();
  }

  // Formats the error. Errors of the device have a stack trace after the first line.
  std::string not_recorded(const Part& part, std::string_view error) const {
    const std::size_t at = std::min(issued_, part.end - 1);
    const std::string_view first_line = error.substr(0, error.find('\n'));
    return fmt::format(
        "segment {} of {} of {} cannot be recorded: {} {}: {}; likely cause: {}; remove cudagraph from "
        "compile.passes to train without recordings",
        part.segment, stats_.segments, step_.graph().name, issued_ < part.end ? "at" : "at its end, after",
        ir::describe_place(step_.instructions()[at]->node()), first_line, likely_cause(error));
  }

  // Run 1 served temporaries without room in the pool from the heap. Later runs place them in parts
  // of the arena that are free while the op runs, for ops that release all of them.
  void find_room() {
    std::vector<ir::NodeIndex> nodes;
    std::vector<Calls*> of_nodes;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const Instruction& instruction = *step_.instructions()[i];
      const ReplayDevice::Issued& latest = calls_[i].latest;
      if (is_collective(instruction) || latest.heap_bytes == 0 || latest.keeps_memory) continue;
      nodes.push_back(instruction.index());
      of_nodes.push_back(&calls_[i]);
    }
    const std::vector<std::vector<ir::Gap>> gaps = ir::free_gaps(step_.graph(), step_.plan(), nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (const ir::Gap& gap : gaps[i])
        of_nodes[i]->room.emplace_back(memory_->arena() + gap.offset, static_cast<std::size_t>(gap.bytes));
  }

  void update_stats() {
    stats_.heap_bytes = stats_.copied_results = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const Instruction& instruction = *step_.instructions()[i];
      const ReplayDevice::Issued& latest = calls_[i].latest;
      stats_.copied_results += latest.copied_results;
      if (is_collective(instruction) || latest.heap_bytes <= stats_.heap_bytes) continue;
      stats_.heap_bytes = latest.heap_bytes;
      stats_.largest_workspace_op = instruction.node().op;
    }
    stats_.pool_bytes = device_.pool_bytes();
    stats_.free_bytes_after = device_.free_bytes();
  }

  std::shared_ptr<ReplayMemory> memory_;
  ReplayDevice& device_;
  StepWatch* watch_;
  PlannedStep step_;
  std::vector<Calls> calls_;  // by instruction
  std::vector<Part> parts_;
  std::size_t issued_ = 0;  // the current instruction
  std::int64_t runs_ = 0;
  bool failed_ = false;
  ReplayStats stats_;
};

}  // namespace

ReplayMemory::ReplayMemory(std::shared_ptr<ReplayDevice> device, std::int64_t bytes, std::int64_t host_bytes)
    : device_(std::move(device)) {
  try {
    arena_ = device_->reserve(static_cast<std::size_t>(bytes));
    host_ = device_->reserve_on_host(static_cast<std::size_t>(host_bytes));
  } catch (...) {
    device_->release_pool();
    throw;
  }
}

ReplayMemory::~ReplayMemory() { device_->release_pool(); }

std::unique_ptr<Executor> make_replay(const ir::Graph& graph, const ir::MemoryPlan& plan,
                                      std::shared_ptr<ReplayMemory> memory, std::vector<Tensor> state,
                                      StepWatch* watch) {
  return std::make_unique<Replay>(graph, plan, std::move(memory), std::move(state), watch);
}

void ReplayStats::add(const ReplayStats& other, std::int64_t runs) {
  instructions += runs * other.instructions;
  views += other.views;
  segments += runs * other.segments;
  recorded_ops += runs * other.recorded_ops;
  batch_bytes += runs * other.batch_bytes;
  state_bytes += runs * other.state_bytes;
  copied_results += runs * other.copied_results;
  arena_bytes = std::max(arena_bytes, other.arena_bytes);
  pool_bytes = std::max(pool_bytes, other.pool_bytes);
  if (other.heap_bytes > heap_bytes) {
    heap_bytes = other.heap_bytes;
    largest_workspace_op = other.largest_workspace_op;
  }
  free_bytes_before = std::max(free_bytes_before, other.free_bytes_before);
  free_bytes_after =
      free_bytes_after == 0 ? other.free_bytes_after : std::min(free_bytes_after, other.free_bytes_after);
  warm_up_ms += other.warm_up_ms;
  capture_ms += other.capture_ms;
}

}  // namespace rondo
