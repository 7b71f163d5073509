// Compiles the functions of a step and counts their memory. `repeat` recomputes as much as
// possible, including all-to-alls: it is rare, has the same bits as the step and shares the arena
// of the other functions.
#include "trainer/step/step_program.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/text/size_text.h"

namespace rondo {
namespace {

// Returns the bytes of the batch inputs of a step, without those received from another stage.
std::int64_t own_batch_bytes(const CompiledStep& step) {
  std::int64_t bytes = step.report().memory.input_bytes[static_cast<std::size_t>(ir::InputKind::batch)];
  for (const StepInput& input : step.function().inputs)
    if (is_received(input)) bytes -= ir::storage_bytes(input.type);
  return bytes;
}

}  // namespace

const CompiledStep* StepProgram::add(const StepFunction& function, const CompileRequest& request) {
  return &functions.emplace_back(function, request);
}

StepProgram::StepProgram(const TrainStepFunctions& of, const CompileRequest& request, bool with_validation) {
  const auto calls = [&](const StepFunction& forward_backward, const CompileRequest& with) {
    const CompiledStep* const function = add(forward_backward, with);
    std::vector<Call> calls;
    for (std::int64_t i = 0; i < of.microbatches; ++i)
      calls.push_back({function, static_cast<std::size_t>(i)});
    return calls;
  };
  step = calls(of.microbatch, request);
  if (of.last) step.back().function = add(*of.last, request);
  const CompiledStep* const update = of.update ? add(*of.update, request) : nullptr;
  if (update != nullptr && !of.last) step.push_back({update});
  if (of.repeat) {
    CompileRequest least_memory = request;
    least_memory.options.memory_policy = MemoryPolicy::full;
    least_memory.options.recompute_all_to_all = true;
    repeat = calls(*of.repeat, least_memory);
    if (update != nullptr) repeat.push_back({update});
  }
  if (with_validation) validation = {{add(of.validate, request)}};
}

StepProgram::StepProgram(const PipelineFunctions& of, const PipelineSchedule& schedule,
                         const CompileRequest& request, bool with_validation)
    : pipeline(compile_pipeline(of.stages, schedule, request, with_validation)) {
  step = {{add(of.update, request)}};
  if (with_validation) validation = {{add(of.validate, request)}};
}

StepProgram::StepProgram(const StepFunction& validate, const CompileRequest& request) {
  validation = {{add(validate, request)}};
}

std::vector<const CompiledStep*> StepProgram::all() const {
  std::vector<const CompiledStep*> all;
  if (pipeline) all = pipeline->functions();
  for (const CompiledStep& function : functions) all.push_back(&function);
  return all;
}

const CompiledStep* StepProgram::find(std::string_view name) const {
  const auto match = std::find_if(functions.begin(), functions.end(), [&](const CompiledStep& function) {
    return function.function().name == name;
  });
  return match == functions.end() ? nullptr : &*match;
}

const CompiledStep& StepProgram::at(std::string_view name) const {
  const CompiledStep* const function = find(name);
  RONDO_ASSERT(function != nullptr, "the step has no function " + std::string(name));
  return *function;
}

bool StepProgram::repeat_fits(std::int64_t bytes) const {
  const auto arena = [](const Call& call) { return call.function->report().memory.arena_bytes; };
  return arena(repeat.front()) <= arena(step.front()) || planned_memory(*this).total_bytes() <= bytes;
}

void StepProgram::drop_repeat() {
  if (repeat.empty()) return;
  functions.remove_if([&](const CompiledStep& function) { return &function == repeat.front().function; });
  repeat.clear();
}

std::int64_t PlannedMemory::total_bytes() const {
  return std::accumulate(input_bytes.begin(), input_bytes.end(), arena_bytes);
}

std::int64_t PlannedMemory::host_total_bytes() const {
  return std::accumulate(host_input_bytes.begin(), host_input_bytes.end(), host_arena_bytes);
}

std::string PlannedMemory::text() const {
  const std::int64_t on_host = host_total_bytes();
  return size_text(total_bytes()) + (on_host == 0 ? "" : " and " + size_text(on_host) + " in host memory");
}

PlannedMemory planned_memory(const StepProgram& program) {
  PlannedMemory memory;
  for (const CompiledStep* step : program.all()) {
    const ir::MemoryReport& report = step->report().memory;
    for (std::size_t kind = 0; kind < memory.input_bytes.size(); ++kind) {
      memory.input_bytes[kind] = std::max(memory.input_bytes[kind], report.input_bytes[kind]);
      memory.host_input_bytes[kind] = std::max(memory.host_input_bytes[kind], report.host_input_bytes[kind]);
    }
    memory.host_arena_bytes = std::max(memory.host_arena_bytes, report.host_arena_bytes());
    if (!memory.report.graph.empty() && report.arena_bytes <= memory.arena_bytes) continue;
    memory.arena_bytes = report.arena_bytes;
    memory.report = report;
  }
  if (!program.pipeline) return memory;
  memory.input_bytes[static_cast<std::size_t>(ir::InputKind::saved)] = program.pipeline->saved_bytes();
  std::int64_t& batch = memory.input_bytes[static_cast<std::size_t>(ir::InputKind::batch)] = 0;
  for (const CompiledStep* step : program.all()) batch = std::max(batch, own_batch_bytes(*step));
  batch += program.pipeline->received_bytes();
  return memory;
}

}  // namespace rondo
