// `rondo-worker train ...`: one rank of a run, and how it ends.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/worker_commands.h"
#include "compiler/execute/cpu_memory.h"
#include "parallel/rendezvous/environment.h"
#include "support/crash_report.h"
#include "support/deadline.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stop_signal.h"
#include "trainer/config/load.h"
#include "trainer/observe/comm_trace.h"
#include "trainer/run/trainer.h"

namespace rondo {
namespace {

// With a teardown, before its collectives are ended; after twice that the process is.
constexpr std::chrono::seconds kPatience{15};

struct End {
  int exit_code = 0;
  std::optional<int> signal;
  std::string reason = "finished";
};

// The launcher reads these: where the run folder is, and what a failed rank has to say (torchrun's format).
void tell_launcher_folder(const std::string& folder) {
  if (const char* file = std::getenv("RONDO_RUN_FOLDER_FILE"))
    std::ofstream(file) << "run_folder=" << std::filesystem::absolute(folder).string() << "\n";
}
void tell_launcher_error(const End& end) {
  const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (file == nullptr) return;
  const auto seconds = std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  const nlohmann::json extra = {
      {"py_callstack", ""}, {"timestamp", std::to_string(seconds)}, {"exit_code", end.exit_code}};
  std::ofstream(file) << nlohmann::json{{"message", {{"message", end.reason}, {"extraInfo", extra}}}} << "\n";
}

std::string first_line(const char* text) {
  const std::string whole = text;
  return whole.substr(0, whole.find('\n'));
}

// By a signal, where no step was agreed on.
End stopped(int signal, std::int64_t step) {
  return {128 + signal, signal,
          "stopped by " + describe(StopRequest::signal, signal) + " after step " + std::to_string(step) +
              "; nothing was saved"};
}

// As the ranks agreed.
End stopped(const Stop& stop, std::int64_t step, const JobConfig& config) {
  End end;
  end.reason = "stopped by " + describe(stop.request, stop.signal) + " after step " + std::to_string(step);
  if (stop.request == StopRequest::signal) end.signal = stop.signal;
  const bool saves = config.checkpoint.enable && !config.checkpoint.load_only;
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

// A peer that was told to stop first breaks our collectives: that is our own stop, not a failure. What was under way is
// written down either way: a launcher stops the ranks that are left.
End lost_peer(const std::string& reason, std::int64_t step, const JobConfig& config,
              const RankEnvironment& environment) {
  const std::string details = write_comm_trace(config, environment, reason);
  if (const auto signal = stop_requested()) return stopped(*signal, step);
  return {static_cast<int>(ExitCode::peer), std::nullopt, reason + details};
}

// What `body` ends with, whatever it throws.
template <class Body, class Steps>
End end_of(Body body, Steps steps_done, const JobConfig& config, const RankEnvironment& environment) {
  const auto internal = [](const std::string& reason) {
    return End{static_cast<int>(ExitCode::internal), std::nullopt, reason};
  };
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ExitCode::peer) return lost_peer(error.what(), steps_done(), config, environment);
    return {static_cast<int>(error.code()), std::nullopt, error.what()};
  } catch (const c10::DistError& error) {
    return lost_peer("lost contact with another rank after step " + std::to_string(steps_done()) + ": " +
                         first_line(error.what_without_backtrace()),
                     steps_done(), config, environment);
  } catch (const c10::OutOfMemoryError& error) {
    return {static_cast<int>(ExitCode::resources), std::nullopt,
            "the GPU is out of memory: " + first_line(error.what_without_backtrace()) +
                "; `rondo plan` says what a step needs and what would make it fit"};
  } catch (const c10::Error& error) {
    return internal(first_line(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ExitCode::resources), std::nullopt, "out of memory"};
  } catch (const std::exception& error) {
    return internal(std::string("internal error: ") + error.what());
  }
}

// Rank 0 writes it, if the folder is this run's. What another rank died of, the launcher knows and writes
// over a mere "lost contact" of rank 0.
void write_exit_json(Report* report, const End& end) {
  if (report == nullptr) return;
  try {
    report->folder().write_exit({end.exit_code, end.signal, 0, end.reason});
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

void say(const End& end) {
  if (end.signal || end.exit_code == static_cast<int>(ExitCode::requeue)) {
    log_warning(end.reason);
  } else if (end.exit_code != 0) {
    log_error(end.reason);
    tell_launcher_error(end);
  }
}

// From any thread, where others hang.
[[noreturn]] void end_now(const End& end, Report* report) {
  write_exit_json(report, end);
  say(end);
  std::_Exit(end.exit_code);
}

// Executors wait for the device, and communicators for each other: either may hang where another rank did. What is being
// written to a disk does not count as hanging.
void tear_down(std::optional<Trainer>& trainer, const End& end, Report* report) {
  trainer->close_checkpoints();
  const std::function<void()> end_collectives = trainer->ending_of_collectives();
  if (end.exit_code == static_cast<int>(ExitCode::peer)) end_collectives();
  const auto cut_short = [&] {
    End hung = end;
    hung.reason += fmt::format("; its teardown hung and was cut short after {} s", 2 * kPatience.count());
    if (end.exit_code == 0) log_warning(hung.reason);
    end_now(hung, report);
  };
  const Deadline deadline({{kPatience, end_collectives}, {2 * kPatience, cut_short}});
  trainer.reset();
}

// `report` is made here on rank 0 and outlives the run: how it ended is written there.
End run(const JobConfig& config, const RankEnvironment& environment,
        const std::vector<std::string>& command_line, std::optional<Report>& report,
        std::chrono::system_clock::time_point started) {
  std::optional<Trainer> trainer;
  const auto told = [&] { return report ? &*report : nullptr; };
  const auto on_hang = [&](const std::string& what) {
    end_now(
        {static_cast<int>(ExitCode::peer), std::nullopt, what + write_comm_trace(config, environment, what)},
        told());
  };
  const auto train = [&] {
    if (environment.rank == 0) refuse_stopped(config.job);
    if (environment.rank == 0) report.emplace(config, command_line, environment.world_size);
    trainer.emplace(config, environment, told(), started, on_hang);
    trainer->prepare();
    const std::optional<Stop> stop = trainer->train();
    return stop ? stopped(*stop, trainer->steps_done(), config) : End{};
  };
  const End end = end_of(
      train, [&] { return trainer ? trainer->steps_done() : 0; }, config, environment);
  if (trainer) tear_down(trainer, end, told());
  return end;
}

}  // namespace

int run_train(const std::vector<std::string>& args, const std::vector<std::string>& command_line) {
  const auto started = std::chrono::system_clock::now();
  install_stop_signals();
  cpu_memory::install();  // before the first tensor
  const JobConfig config = load_config(args);
  const RankEnvironment environment = rank_environment();
  install_crash_report(environment.rank);
  if (environment.world_size > 1) set_log_rank(environment.rank);
  set_log_color(!config.metrics.disable_color_printing);
  if (environment.rank == 0) tell_launcher_folder(config.job.dump_folder);
  set_crash_file((std::filesystem::absolute(config.job.dump_folder) /
                  ("rank_" + std::to_string(environment.rank) + ".crash.txt"))
                     .string());
  std::optional<Report> report;
  const End end = run(config, environment, command_line, report, started);
  write_exit_json(report ? &*report : nullptr, end);
  say(end);
  return end.exit_code;
}

}  // namespace rondo
