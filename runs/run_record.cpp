// Events, loads, environment and exit are read leniently: a truncated event must not hide the
// curve. The curve itself is read strictly, by read_run.
#include "runs/run_record.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>

#include "support/files/file.h"
#include "support/files/file_lines.h"
#include "support/machine/machine.h"
#include "support/printable.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

void for_each_line(const fs::path& path, const std::function<void(std::string_view)>& take) {
  std::error_code missing;
  if (!fs::exists(path, missing)) return;
  FileLines file(path, FileUse::data);
  while (const auto line = file.next()) take(*line);
}

// Returns the last line that is an object; null without one. Parses the last few lines alone.
ordered_json last_object_in(const fs::path& path) {
  constexpr std::size_t kParsed = 4;  // the last line may be cut
  std::deque<std::string> lines;
  for_each_line(path, [&](std::string_view line) {
    if (lines.size() == kParsed) lines.pop_front();
    lines.emplace_back(line);
  });
  for (auto line = lines.rbegin(); line != lines.rend(); ++line)
    if (ordered_json value = json_object(*line); !value.is_null()) return value;
  return nullptr;
}

bool is_repeated(const ordered_json& event) {
  const ordered_json name = event.value("event", ordered_json(nullptr));
  return name == "validation" || name == "checkpoint" || name == "warning";
}

ordered_json printable_json(const ordered_json& value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  ordered_json out = value.is_array() ? ordered_json::array() : ordered_json::object();
  for (const auto& [key, inner] : value.items())
    if (value.is_array())
      out.push_back(printable_json(inner));
    else
      out[printable(key)] = printable_json(inner);
  return out;
}

}  // namespace

ordered_json json_object(std::string_view text) {
  const auto value = json_or_discarded<ordered_json>(text);
  return value.is_object() ? printable_json(value) : ordered_json(nullptr);
}

ordered_json json_object_in(const fs::path& path) {
  std::error_code missing;
  if (!fs::exists(path, missing)) return nullptr;
  return json_object(read_file(path, kMaxRecordBytes, FileUse::data));
}

std::string text_of_json(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void RunRecord::add_event(std::string_view line) {
  ordered_json added = json_object(line);
  if (added.is_null()) return;
  times.add(added);
  events.push_back(std::move(added));
  if (events.size() <= kMaxEvents) return;
  const auto half = events.begin() + kMaxEvents / 2;
  const auto kept = std::remove_if(events.begin(), half, is_repeated);
  events.erase(kept == half ? events.begin() : kept, half);
}

std::string RunRecord::state() const {
  if (exit.is_null()) return has_ended() ? "killed" : "running";
  const ordered_json code = exit.value("exit_code", ordered_json(nullptr));
  if (code == 0) return "finished";
  return fmt::format("ended with {}: {}", text_of_json(code),
                     text_of_json(exit.value("reason", ordered_json(""))));
}

bool RunRecord::has_ended() const {
  if (!exit.is_null()) return true;
  if (!environment.is_object() || !environment.contains("pid") || !environment["pid"].is_number_integer())
    return false;
  if (environment.value("hostname", ordered_json("")) != host_name()) return false;
  return ::kill(environment["pid"].get<pid_t>(), 0) != 0 && errno == ESRCH;
}

ordered_json RunRecord::event(std::string_view name) const {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (event->value("event", ordered_json(nullptr)) == name) return *event;
  return nullptr;
}

std::string RunRecord::model() const {
  const ordered_json model = event("model");
  if (!model.is_object()) return "";
  const std::string flavor = text_of_json(model.value("flavor", ordered_json("")));
  return text_of_json(model.value("name", ordered_json(""))) + (flavor.empty() ? "" : " " + flavor);
}

std::string RunRecord::setting(const std::string& key) const {
  const auto it = log.config.find(key);
  if (it == log.config.end()) return "";
  const std::string& text = it->second;
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string RunRecord::executor() const {
  return setting("compile.enable") == "false" ? "eager" : setting("compile.executor");
}

double repeated_seconds(const fs::path& folder) {
  double seconds = 0;
  for_each_line(folder / "metrics.superseded.jsonl", [&](std::string_view line) {
    const ordered_json step = json_object(line);
    const ordered_json time = step.is_object() ? step.value("step_time_s", ordered_json(0)) : ordered_json(0);
    if (time.is_number()) seconds += std::max(time.get<double>(), 0.0);
  });
  return seconds;
}

RunRecord read_record(const fs::path& folder) {
  RunRecord record{.log = read_run(folder, CutLine::left_out),
                   .events = {},
                   .expert_load = last_object_in(folder / "expert_load.jsonl"),
                   .environment = json_object_in(folder / "env.json"),
                   .exit = json_object_in(folder / "exit.json")};
  for_each_line(folder / "events.jsonl", [&](std::string_view line) { record.add_event(line); });
  record.repeated_s = repeated_seconds(folder);
  record.last_written_s = modified_s(folder / "metrics.jsonl");
  return record;
}

std::vector<std::string> short_names(const std::vector<RunRecord>& runs) {
  std::vector<fs::path> paths;
  for (const RunRecord& run : runs) {
    fs::path path = fs::absolute(run.log.folder).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    paths.push_back(std::move(path));
  }
  fs::path shared = paths[0].parent_path();
  for (const fs::path& path : paths)
    while (std::mismatch(shared.begin(), shared.end(), path.begin(), path.end()).first != shared.end() ||
           path == shared)
      shared = shared.parent_path();
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(printable(path.lexically_relative(shared).string()));
  return names;
}

}  // namespace rondo
