// Exit codes are decided here and nowhere else. Every way out of a run, normal or by an exception, becomes
// one RunOutcome, so that log, exit.json and the launcher's file say the same. Errors of ours carry their
// code; LibTorch's are told apart by type, the most special first.
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

#include "parallel/groups/nccl.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "trainer/observe/comm_trace.h"

namespace rondo {
namespace {

void tell_launcher_error(const RunOutcome& end) {
  const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (file == nullptr) return;
  const auto seconds = std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  const nlohmann::json extra = {
      {"py_callstack", ""}, {"timestamp", std::to_string(seconds)}, {"exit_code", end.exit_code}};
  std::ofstream(file) << nlohmann::json{{"message", {{"message", end.reason}, {"extraInfo", extra}}}} << "\n";
}

// Without the advice at its end: a setting that does not go with recordings.
std::string first_line(const char* text) {
  const std::string whole = text;
  return whole.substr(0, std::min(whole.find('\n'), whole.find(" If reserved but unallocated memory is")));
}

// LibTorch's allocator, the CUDA runtime (for pinned memory, streams, graphs) and cuBLAS tell it in their own
// ways.
bool is_full(const c10::Error& error, const std::string& what) {
  constexpr int kMemoryAllocation = 2;  // cudaErrorMemoryAllocation
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (const auto* const of_runtime = dynamic_cast<const c10::AcceleratorError*>(&error))
    return of_runtime->get_error_code() == kMemoryAllocation;
  return what.find("CUBLAS_STATUS_ALLOC_FAILED") != std::string::npos;
}

// What no program can cause. A kernel of ours may be behind a failed launch or a wrong address.
bool is_broken(const c10::Error& error) {
  // Of cudaError: devices unavailable, an ECC and an NVLink error that could not be corrected.
  constexpr std::array kOfTheMachine = {46, 214, 220};
  const auto* const of_runtime = dynamic_cast<const c10::AcceleratorError*>(&error);
  return of_runtime != nullptr && std::find(kOfTheMachine.begin(), kOfTheMachine.end(),
                                            of_runtime->get_error_code()) != kOfTheMachine.end();
}

// By a signal, where no step was agreed on.
RunOutcome interrupted(int signal, std::int64_t step) {
  return {128 + signal, signal,
          "stopped by " + describe(StopRequest::signal, signal) + " after step " + std::to_string(step) +
              "; nothing was saved"};
}

// A peer that was told to stop first breaks our collectives: that is our own stop, not a failure. What was
// under way is written down either way: a launcher stops the ranks that are left.
RunOutcome lost_peer(const std::string& reason, std::int64_t step, const JobConfig& config,
                     const RankEnvironment& environment) {
  const std::string details = write_comm_trace(config, environment, reason);
  if (const auto signal = stop_requested()) return interrupted(*signal, step);
  return {static_cast<int>(ExitCode::peer), std::nullopt, reason + details};
}

// Rank 0 writes it, if the folder is this run's: a start that was refused leaves it as it was. What another
// rank died of, the launcher knows and writes over a mere "lost contact" of rank 0.
void write_exit_json(Report* report, const RunOutcome& end) {
  if (report == nullptr || !report->folder().has_begun()) return;
  try {
    report->write_exit({end.exit_code, end.signal, 0, end.reason});
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

}  // namespace

RunOutcome outcome_of(const Stop& stop, std::int64_t step, const JobConfig& config) {
  RunOutcome end;
  end.reason = "stopped by " + describe(stop.request, stop.signal) + " after step " + std::to_string(step);
  if (stop.request == StopRequest::signal) end.signal = stop.signal;
  const bool saves = config.checkpoint.enable && !config.checkpoint.load_only;
  if (stop.request == StopRequest::full_disk || stop.request == StopRequest::data) {
    end.exit_code = static_cast<int>(stop.code);
    end.reason +=
        (stop.details.empty() ? "" : ": " + stop.details) +
        (stop.saved ? "; it is saved, and the same command goes on from there" : "; nothing was saved");
    return end;
  }
  if (stop.saved) {
    end.exit_code = static_cast<int>(ExitCode::requeue);
    end.reason += "; it is saved, and the same command goes on from there";
    if (stop.request == StopRequest::stop_file) end.reason += " once STOP is deleted";
  } else if (saves) {
    end.exit_code = static_cast<int>(ExitCode::resources);
    end.reason += "; the save failed, and the same command goes on from the checkpoint before";
    return end;
  } else {
    end.exit_code = static_cast<int>(ExitCode::do_not_requeue);
    end.reason += config.checkpoint.load_only ? "; nothing was saved (checkpoint.load_only)"
                                              : "; nothing was saved (checkpoint.enable = true saves)";
  }
  // What a shell expects of an interrupted program; and of one that saved nothing.
  if (end.signal && (*end.signal == SIGINT || !stop.saved)) end.exit_code = 128 + *end.signal;
  return end;
}

RunOutcome outcome_of(const std::function<RunOutcome()>& body,
                      const std::function<std::int64_t()>& steps_done, const JobConfig& config,
                      const RankEnvironment& environment) {
  const auto internal = [](const std::string& reason) {
    return RunOutcome{static_cast<int>(ExitCode::internal), std::nullopt, reason};
  };
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ExitCode::peer) return lost_peer(error.what(), steps_done(), config, environment);
    return {static_cast<int>(error.code()), std::nullopt, error.what()};
  } catch (const c10::DistError& error) {
    if (const std::string full = lack_of_memory(error.what_without_backtrace()); !full.empty())
      return {static_cast<int>(ExitCode::resources), std::nullopt,
              "the GPU is out of memory in a collective: " + full +
                  "; NCCL's buffers are not in the plan: leave them more, with a smaller batch or another "
                  "compile.memory_policy, or have fewer groups"};
    return lost_peer("lost contact with another rank after step " + std::to_string(steps_done()) + ": " +
                         first_line(error.what_without_backtrace()),
                     steps_done(), config, environment);
  } catch (const c10::Error& error) {
    const std::string what = first_line(error.what_without_backtrace());
    const auto resources = [](const std::string& reason) {
      return RunOutcome{static_cast<int>(ExitCode::resources), std::nullopt, reason};
    };
    if (is_full(error, what))
      return resources("the GPU is out of memory: " + what +
                       "; `rondo plan` says what a step needs and what would make it fit");
    if (is_broken(error))
      return resources("the GPU failed: " + what + "; `nvidia-smi -q` tells more, try another GPU");
    return internal(what);
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ExitCode::resources), std::nullopt, "out of memory"};
  } catch (const std::exception& error) {
    return internal(std::string("internal error: ") + error.what());
  }
}

void tell(const RunOutcome& end, Report* report) {
  write_exit_json(report, end);
  if (end.signal || end.exit_code == static_cast<int>(ExitCode::requeue)) {
    log_warning(end.reason);
  } else if (end.exit_code != 0) {
    log_error(end.reason);
    tell_launcher_error(end);
  }
}

}  // namespace rondo
