#include "trainer/observe/runs/read_run.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/error.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void unreadable(const std::string& place, const std::string& why) {
  throw Error(ExitCode::data, place + ": " + why);
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>* out) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix.empty() ? std::string(name.str()) : prefix + "." + std::string(name.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, key, out);
      continue;
    }
    std::ostringstream text;
    node.visit([&text](const auto& value) { text << value; });
    (*out)[key] = text.str();
  }
}

std::map<std::string, std::string> read_config(const fs::path& file) {
  std::map<std::string, std::string> config;
  if (!fs::exists(file)) return config;
  try {
    flatten(toml::parse_file(file.string()), "", &config);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    unreadable(fmt::format("{}:{}:{}", file.string(), at.line, at.column), std::string(error.description()));
  }
  return config;
}

StepMetrics read_line(const std::string& line, const std::string& place) {
  try {
    return parse_step_metrics(line);
  } catch (const std::invalid_argument& error) {
    unreadable(place, error.what());
  }
}

std::vector<StepMetrics> read_metrics(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) unreadable(path.string(), "cannot be opened; is this the folder of a run (job.dump_folder)?");
  std::vector<StepMetrics> lines;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = fmt::format("{}:{}", path.string(), number);
    if (file.eof()) unreadable(place, "the last line is cut off (no newline); delete it to compare the rest");
    const StepMetrics metrics = read_line(line, place);
    if (!lines.empty() && metrics.step <= lines.back().step)
      unreadable(place,
                 fmt::format("step {} follows step {}; steps must rise", metrics.step, lines.back().step));
    lines.push_back(metrics);
  }
  if (lines.empty()) unreadable(path.string(), "holds no step; the run ended before its first one");
  return lines;
}

}  // namespace

RunLog read_run(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    unreadable(folder.string(), "is not a folder; give the folder of a run (job.dump_folder)");
  return {folder, read_metrics(folder / "metrics.jsonl"), read_config(folder / "config.toml")};
}

}  // namespace rondo
