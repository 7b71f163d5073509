// When one rank dies, others fail after it with the exit code for a lost peer. A failure with that
// code counts as the cause only if there is no other. Otherwise the earliest failure is the cause.
// Files of other processes are read up to a limit, and malformed ones are ignored. The age of
// exit.json is compared on the coarse clock, which also stamps files.
#include "launch/failure.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "launch/rendezvous/net.h"
#include "support/error.h"
#include "support/files/append_file.h"
#include "support/files/atomic_file.h"
#include "support/files/file.h"
#include "support/files/folder_lock.h"
#include "support/stopwatch.h"
#include "support/text/utc_time.h"

namespace rondo::launch {
namespace {

constexpr std::size_t kMaxErrorFile = 1 << 20;
constexpr std::size_t kMaxMessage = 2000;
constexpr std::size_t kMaxLine = 400;

constexpr int kNotExecutable = 126, kNotFound = 127;  // of a shell

const char* meaning_of(int code) {
  if (code == kNotExecutable) return "not executable";
  if (code == kNotFound) return "program not found";
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::ok:
      return nullptr;
    case ExitCode::internal:
      return "internal error";
    case ExitCode::usage:
      return "usage";
    case ExitCode::config:
      return "configuration";
    case ExitCode::data:
      return "data or tokenizer";
    case ExitCode::checkpoint:
      return "checkpoint";
    case ExitCode::environment:
      return "environment";
    case ExitCode::peer:
      return "a peer or communication";
    case ExitCode::numerics:
      return "numerics";
    case ExitCode::resources:
      return "disk, memory or descriptors";
    case ExitCode::graph:
      return "graph";
    case ExitCode::requeue:
      return "saved, requests a requeue";
    case ExitCode::do_not_requeue:
      return "requests no requeue";
  }
  return nullptr;  // of another program
}

std::string read_at_most(const std::string& path, std::size_t bytes, bool from_the_end) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg()));
  const std::size_t count = std::min(size, bytes);
  file.seekg(static_cast<std::streamoff>(from_the_end ? size - count : 0));
  std::string text(count, '\0');
  file.read(text.data(), static_cast<std::streamsize>(count));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// torchrun writes whole seconds as text; numbers are accepted, too.
double time_of(const Json& extra) {
  const auto field = extra.find("timestamp");
  if (field == extra.end()) return 0;
  if (field->is_number()) return field->get<double>();
  return field->is_string() ? std::strtod(field->get_ref<const std::string&>().c_str(), nullptr) : 0;
}

double clock_s(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The epoch's time at which the steady clock was 0, as the clock was at the start of the process.
const double kStart_s = clock_s(CLOCK_REALTIME) - now_s();

}  // namespace

std::optional<ErrorFile> read_error_file(const std::string& path) {
  const Json root = Json::parse(read_at_most(path, kMaxErrorFile, false), nullptr, false);
  if (!root.is_object() || !root.contains("message")) return std::nullopt;
  const Json& message = root["message"];
  ErrorFile result;
  if (message.is_string()) result.message = text_field(root, "message", kMaxMessage);
  if (!message.is_object()) return result;
  result.message = text_field(message, "message", kMaxMessage);
  result.exit_code = static_cast<int>(integer_field(message, "errorCode", 1, 255).value_or(0));
  if (message.contains("extraInfo") && message["extraInfo"].is_object())
    result.time_s = time_of(message["extraInfo"]);
  if (!std::isfinite(result.time_s)) result.time_s = 0;
  return result;
}

bool is_likelier_cause(const Failure& a, const Failure& b, const std::optional<HangCulprit>& hang_culprit) {
  const auto is_consequence = [](const Failure& failure) {
    // a lost node is no consequence
    return failure.lost_peer() && failure.rank >= 0;
  };
  if (is_consequence(a) != is_consequence(b)) return is_consequence(b);
  const auto is_culprit = [&](const Failure& failure) {
    return hang_culprit && failure.rank == hang_culprit->status.rank;
  };
  if (is_consequence(a) && is_culprit(a) != is_culprit(b)) return is_culprit(a);
  return a.time_s < b.time_s;
}

std::string cause_of(const Failure& failure) {
  if (failure.signal > 0) {
    const char* name = sigabbrev_np(failure.signal);
    return name ? std::string("SIG") + name : fmt::format("signal {}", failure.signal);
  }
  const char* meaning = meaning_of(failure.exit_code);
  return fmt::format("exit code {}{}", failure.exit_code, meaning ? fmt::format(" ({})", meaning) : "");
}

std::string describe(const Failure& failure, int world_size, int nodes) {
  const std::string node = nodes > 1 ? fmt::format("node {}, {}", failure.node, failure.host) : "";
  if (failure.rank < 0)
    return fmt::format("node {} ({}, launcher's pid {}) was lost: {}; all ranks were stopped", failure.node,
                       failure.host, failure.pid, failure.message);
  std::string text = fmt::format("rank {} (local rank {}{}{}, pid {}) {} {}", failure.rank,
                                 failure.local_rank, nodes > 1 ? ", " : "", node, failure.pid,
                                 failure.signal > 0 ? "was killed by" : "ended with", cause_of(failure));
  if (world_size > 1) text += "; the other ranks were stopped";
  if (failure.signal == SIGKILL)
    text +=
        "\n  the kernel kills a process in this way when memory runs out, in the machine or its cgroup "
        "(`dmesg` "
        "tells); so do a scheduler and `kill -9`";
  if (failure.saved >= 0)
    text += fmt::format("\n  the last checkpoint is step {}, where the same command resumes", failure.saved);
  if (!failure.message.empty()) text += "\n  its message: " + failure.message;
  if (!failure.log.empty()) text += "\n  its log: " + failure.log;
  return text;
}

bool may_restart(int code) {
  constexpr std::array kFinal = {ExitCode::ok,      ExitCode::usage,         ExitCode::config,
                                 ExitCode::data,    ExitCode::numerics,      ExitCode::graph,
                                 ExitCode::requeue, ExitCode::do_not_requeue};
  return std::find(kFinal.begin(), kFinal.end(), static_cast<ExitCode>(code)) == kFinal.end();
}

int common_code(const std::vector<int>& codes) {
  int result = 0;
  for (const int code : codes) {
    if (code != 0 && code != static_cast<int>(ExitCode::peer)) return code;
    result = std::max(result, code);
  }
  return result;
}

std::string run_folder_in(const std::string& file) {
  const std::string text = read_at_most(file, PATH_MAX, false);
  constexpr std::string_view kKey = "run_folder=";
  if (!text.starts_with(std::string(kKey) + "/")) return "";
  return text.substr(kKey.size(), text.find('\n') - kKey.size());
}

void write_exit_json(const std::string& run_folder, const Failure& failure, int attempt,
                     double attempt_began_s, const std::optional<HangCulprit>& hang_culprit) {
  // Another run may have the folder by now; then it holds the lock and owns the folder.
  const std::optional<FolderLock> lock = FolderLock::take(run_folder, FileUse::run);
  if (!lock) return;
  const std::string path = run_folder + "/exit.json";
  const std::string reason = failure.message.empty() ? "" : ": " + failure.message;
  Json content = {{"exit_code", failure.code()},
                  {"signal", failure.signal > 0 ? Json(failure.signal) : Json(nullptr)},
                  {"rank", failure.rank},
                  {"reason", (failure.signal > 0 ? "killed by " : "") + cause_of(failure) + reason},
                  {"attempt", attempt},
                  {"ended_at", utc_text(failure.time_s)},
                  {"by", "launcher"}};
  if (modified_s(path) >= attempt_began_s) {
    Json own = Json::parse(read_at_most(path, kMaxErrorFile, false), nullptr, false);
    if (integer_field(own, "exit_code", 0, 255) == failure.code()) {
      if (!hang_culprit) return;
      content = std::move(own);
    }
  }
  if (hang_culprit) {
    content["culprit"] = to_json(hang_culprit->status);
    content["culprit"]["text"] = hang_culprit->text;
    const Json event = {
        {"time", utc_text(wall_time_s())}, {"event", "held_up"}, {"culprit", content["culprit"]}};
    AppendFile(run_folder + "/events.jsonl")
        .append(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  replace_file(path, content.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", FileUse::run);
}

double wall_time_s() { return kStart_s + now_s(); }
double file_time_now_s() { return clock_s(CLOCK_REALTIME_COARSE); }

std::string last_line_of(const std::string& path) {
  const std::string text = read_at_most(path, 8192, true);
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of('\n', end);
  return text
      .substr(begin == std::string::npos ? 0 : begin + 1,
              end - (begin == std::string::npos ? 0 : begin + 1) + 1)
      .substr(0, kMaxLine);
}

}  // namespace rondo::launch
