#include "runs/read_run.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>

#include "support/error.h"
#include "support/files/file_lines.h"
#include "support/files/folder_lock.h"
#include "support/log.h"
#include "support/printable.h"
#include "support/text/toml.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void unreadable(const std::string& place, const std::string& why) {
  throw Error(ExitCode::data, place + ": " + why);
}

void flatten(const toml::table& table, const std::string& prefix, std::map<std::string, std::string>* out) {
  for (const auto& [name, node] : table) {
    const std::string key = (prefix.empty() ? "" : prefix + ".") + printable(name.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, key, out);
      continue;
    }
    if (const auto* number = node.as_floating_point()) {  // toml++ writes 0.003 with 17 digits
      (*out)[key] = fmt::format("{}", number->get());
      continue;
    }
    std::ostringstream text;
    node.visit([&text](const auto& value) { text << value; });
    (*out)[key] = text.str();
  }
}

StepMetrics read_line(std::string_view line, const std::string& place) {
  try {
    return parse_step_metrics(line);
  } catch (const std::invalid_argument& error) {
    unreadable(place, error.what());
  }
}

std::string place_of(const fs::path& file, std::int64_t number) {
  return fmt::format("{}:{}", file.string(), number);
}

std::vector<StepMetrics> read_metrics(const fs::path& path, CutLine cut_line) {
  std::error_code missing;
  if (!fs::exists(path, missing))
    unreadable(path.string(), "cannot be opened; is this the folder of a run (job.dump_folder)?");
  FileLines file(path, FileUse::data);
  std::vector<StepMetrics> lines;
  std::int64_t number = 1;
  for (; const auto line = file.next(); ++number) {
    if (!file.is_complete() && cut_line == CutLine::left_out) break;
    if (!file.is_complete())
      unreadable(place_of(path, number),
                 "the last line is cut off (no newline); delete it to compare the rest");
    append_step(*line, path, number, &lines);
  }
  if (lines.empty()) unreadable(path.string(), "has no steps; the run ended before its first one");
  return lines;
}

}  // namespace

void append_step(std::string_view line, const fs::path& file, std::int64_t number,
                 std::vector<StepMetrics>* lines) {
  const StepMetrics metrics = read_line(line, place_of(file, number));
  if (!lines->empty() && metrics.step <= lines->back().step)
    unreadable(place_of(file, number),
               fmt::format("step {} follows step {}; steps must ascend", metrics.step, lines->back().step));
  lines->push_back(metrics);
}

std::map<std::string, std::string> read_config(const fs::path& file) {
  constexpr std::int64_t kMaxBytes = 1 << 20;  // as of every configuration
  std::map<std::string, std::string> config;
  std::error_code missing;
  if (!fs::exists(file, missing)) return config;
  try {
    flatten(parse_toml(read_file(file, kMaxBytes, FileUse::data), file.string()), "", &config);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    unreadable(fmt::format("{}:{}:{}", file.string(), at.line, at.column), std::string(error.description()));
  }
  return config;
}

void require_run_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    unreadable(folder.string(), "is not a folder; give the folder of a run (job.dump_folder)");
  for (const char* name : {"config.toml", "events.jsonl", "metrics.jsonl", FolderLock::kFile})
    if (fs::exists(folder / name, ignored)) return;
  unreadable(folder.string(), "has no run; give the folder of a run (job.dump_folder)");
}

std::vector<fs::path> run_folders(const std::vector<std::string>& paths, std::size_t least) {
  std::vector<fs::path> folders;
  std::vector<Error> errors;
  for (const std::string& path : paths) {
    try {
      require_run_folder(path);
      folders.emplace_back(path);
    } catch (const Error& error) {
      errors.push_back(error);
    }
  }
  if (folders.size() < least && !errors.empty()) throw errors.front();
  for (const Error& error : errors) log_warning(fmt::format("left out: {}", error.what()));
  return folders;
}

RunLog read_run(const fs::path& folder, CutLine cut_line) {
  require_run_folder(folder);
  return {folder, read_metrics(folder / "metrics.jsonl", cut_line), read_config(folder / "config.toml")};
}

}  // namespace rondo
