// Chooses the exit code of a run; no other place does. Every end of a run, normal or by an
// exception, becomes one RunOutcome, so that log, exit.json and the launcher's file agree. An Error
// carries its code. LibTorch's errors are classified by type, the most derived first.
#include "trainer/run/run_outcome.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "parallel/groups/nccl_errors.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "trainer/observe/comm_trace.h"

namespace rondo {
namespace {

void write_launcher_error(const RunOutcome& end) {
  const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (file == nullptr) return;
  const auto seconds = std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  const nlohmann::json extra = {
      {"py_callstack", ""}, {"timestamp", std::to_string(seconds)}, {"exit_code", end.exit_code}};
  std::ofstream(file) << nlohmann::json{{"message", {{"message", end.reason}, {"extraInfo", extra}}}} << "\n";
}

// Returns the first line without the advice at its end, a setting that recordings do not support.
std::string first_line(const char* text) {
  const std::string whole = text;
  return whole.substr(0, std::min(whole.find('\n'), whole.find(" If reserved but unallocated memory is")));
}

// Returns whether GPU memory was exhausted. LibTorch's allocator, the CUDA runtime (for pinned
// memory, streams, graphs) and cuBLAS report it in different ways.
bool is_out_of_memory(const c10::Error& error, const std::string& message) {
  constexpr int kMemoryAllocation = 2;  // cudaErrorMemoryAllocation
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (const auto* const runtime_error = dynamic_cast<const c10::AcceleratorError*>(&error))
    return runtime_error->get_error_code() == kMemoryAllocation;
  return message.find("CUBLAS_STATUS_ALLOC_FAILED") != std::string::npos;
}

// Returns whether the hardware failed. A failed launch or an illegal address does not count, since
// a kernel may cause it.
bool is_hardware_failure(const c10::Error& error) {
  // Values of cudaError: devices unavailable, an uncorrectable ECC error, an uncorrectable
  // NVLink error.
  constexpr std::array kHardwareErrors = {46, 214, 220};
  const auto* const runtime_error = dynamic_cast<const c10::AcceleratorError*>(&error);
  return runtime_error != nullptr && std::find(kHardwareErrors.begin(), kHardwareErrors.end(),
                                               runtime_error->get_error_code()) != kHardwareErrors.end();
}

std::string last_checkpoint(const Reached& reached) {
  return reached.checkpoint < 0 ? "there is no checkpoint"
                                : fmt::format("the last checkpoint is step {}", reached.checkpoint);
}

bool saves(const JobConfig& config) { return config.checkpoint.enable && !config.checkpoint.load_only; }

// Returns the outcome of a signal after which the ranks agreed on no step.
RunOutcome interrupted(int signal, const Reached& reached, const JobConfig& config) {
  if (!reached.agrees) return stopped_at_start(signal, reached, config);
  return {128 + signal, signal,
          fmt::format("stopped by {} after step {}, which is not saved; {}",
                      describe(StopRequest::signal, signal), reached.step, last_checkpoint(reached))};
}

// Returns the outcome after a peer was lost. A peer that stops first breaks this rank's
// collectives, so a stop request of this rank makes it a stop, not a failure. Collectives in flight
// are recorded in both cases, since a launcher stops the remaining ranks.
RunOutcome lost_peer(const std::string& reason, const Reached& reached, const JobConfig& config,
                     const RankEnvironment& environment) {
  const std::string details = write_comm_trace(config, environment, reason);
  if (const auto signal = stop_requested()) return interrupted(*signal, reached, config);
  return RunOutcome::failed(ExitCode::peer, reason + details);
}

// Writes exit.json on rank 0 if the folder is this run's; a refused start leaves the folder
// unchanged. The launcher replaces a "lost contact" of rank 0 with the failure of the other rank.
void write_exit_json(Report* report, const RunOutcome& end) {
  if (report == nullptr || !report->folder().has_begun()) return;
  try {
    report->write_exit({end.exit_code, end.signal, 0, end.reason});
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

}  // namespace

RunOutcome RunOutcome::failed(ExitCode code, std::string reason) {
  return {static_cast<int>(code), std::nullopt, std::move(reason)};
}

RunOutcome stopped_at_start(int signal, const Reached& reached, const JobConfig& config) {
  const bool requeues = saves(config) && signal != SIGINT;
  return {
      requeues ? static_cast<int>(ExitCode::requeue) : 128 + signal, signal,
      fmt::format(
          "stopped by {} before the first step was done; nothing is lost, and the same command {}",
          describe(StopRequest::signal, signal),
          reached.checkpoint < 0 ? "starts again" : fmt::format("resumes from step {}", reached.checkpoint))};
}

RunOutcome outcome_of(const Stop& stop, const Reached& reached, const JobConfig& config) {
  RunOutcome end;
  end.agreed = stop.request != StopRequest::data;  // one rank knows what it could not read
  end.reason = fmt::format("stopped by {} after step {}", describe(stop.request, stop.signal), reached.step);
  if (stop.request == StopRequest::signal) end.signal = stop.signal;
  if (stop.request == StopRequest::full_disk || stop.request == StopRequest::data) {
    end.exit_code = static_cast<int>(stop.code);
    end.reason += (stop.details.empty() ? "" : ": " + stop.details) +
                  (stop.saved ? "; it is saved, and the same command resumes from there"
                              : fmt::format("; this step is not saved, and {}", last_checkpoint(reached)));
    return end;
  }
  if (stop.saved) {
    end.exit_code = static_cast<int>(ExitCode::requeue);
    end.reason += "; it is saved, and the same command resumes from there";
    if (stop.request == StopRequest::stop_file) end.reason += " once STOP is deleted";
  } else if (saves(config)) {
    end.exit_code = static_cast<int>(ExitCode::resources);
    end.reason += fmt::format("; the save failed, and {}", last_checkpoint(reached));
    return end;
  } else {
    end.exit_code = static_cast<int>(ExitCode::do_not_requeue);
    end.reason += config.checkpoint.load_only ? "; nothing was saved (checkpoint.load_only)"
                                              : "; nothing was saved (checkpoint.enable = true saves)";
  }
  // The exit code that shells expect of an interrupted program; also if nothing was saved.
  if (end.signal && (*end.signal == SIGINT || !stop.saved)) end.exit_code = 128 + *end.signal;
  return end;
}

RunOutcome outcome_of(const std::function<RunOutcome()>& body, const std::function<Reached()>& reached,
                      const JobConfig& config, const RankEnvironment& environment) {
  try {
    return body();
  } catch (const Error& error) {
    // Waits and reads that a signal interrupts throw.
    if (const auto signal = stop_requested(); signal && !reached().agrees)
      return stopped_at_start(*signal, reached(), config);
    if (error.code() == ExitCode::peer) return lost_peer(error.what(), reached(), config, environment);
    return RunOutcome::failed(error.code(), error.what());
  } catch (const c10::DistError& error) {
    if (const std::string full = lack_of_memory(error.what_without_backtrace()); !full.empty())
      return RunOutcome::failed(
          ExitCode::resources,
          "the GPU is out of memory in a collective: " + full +
              "; NCCL's buffers are not in the plan: leave more memory for them with a smaller "
              "batch or another compile.memory_policy, or use fewer groups");
    return lost_peer("lost contact with another rank after step " + std::to_string(reached().step) + ": " +
                         reason_of(error.what_without_backtrace()),
                     reached(), config, environment);
  } catch (const c10::Error& error) {
    const std::string message = first_line(error.what_without_backtrace());
    if (is_out_of_memory(error, message))
      return RunOutcome::failed(ExitCode::resources,
                                "the GPU is out of memory: " + message +
                                    "; `rondo plan` prints what a step needs and what would make it fit");
    if (is_hardware_failure(error))
      return RunOutcome::failed(ExitCode::resources, "the GPU failed: " + message +
                                                         "; `nvidia-smi -q` shows more; try another GPU");
    return RunOutcome::failed(ExitCode::internal, message);
  } catch (const std::bad_alloc&) {
    return RunOutcome::failed(ExitCode::resources, "out of memory");
  } catch (const std::exception& error) {
    return RunOutcome::failed(ExitCode::internal, std::string("internal error: ") + error.what());
  }
}

void report_outcome(const RunOutcome& end, Report* report) {
  write_exit_json(report, end);
  const bool logs = report != nullptr || !end.agreed;
  if (end.signal || end.has(ExitCode::requeue)) {
    if (logs) log_warning(end.reason);
  } else if (end.exit_code != 0) {
    if (logs) log_error(end.reason);
    write_launcher_error(end);
  }
}

}  // namespace rondo
