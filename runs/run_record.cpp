// Events, loads, environment and exit are read leniently: a truncated event must not hide the
// curve. The curve itself is read strictly, by read_run.
#include "runs/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace rondo {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::vector<ordered_json> objects_in(const fs::path& path) {
  std::vector<ordered_json> objects;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (ordered_json value = json_object(line); !value.is_null()) objects.push_back(std::move(value));
  return objects;
}

}  // namespace

ordered_json json_object(const std::string& text) {
  ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value : ordered_json(nullptr);
}

ordered_json json_object_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return json_object(text.str());
}

std::string text_of_json(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string RunRecord::state() const {
  if (exit.is_null()) return "no exit.json: it trains, or was killed";
  const ordered_json code = exit.value("exit_code", ordered_json(nullptr));
  if (code == 0) return "finished";
  return fmt::format("ended with {}: {}", text_of_json(code),
                     text_of_json(exit.value("reason", ordered_json(""))));
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

RunRecord read_record(const fs::path& folder) {
  return {.log = read_run(folder, CutLine::left_out),
          .events = objects_in(folder / "events.jsonl"),
          .expert_loads = objects_in(folder / "expert_load.jsonl"),
          .environment = json_object_in(folder / "env.json"),
          .exit = json_object_in(folder / "exit.json")};
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
  for (const fs::path& path : paths) names.push_back(path.lexically_relative(shared).string());
  return names;
}

}  // namespace rondo
