#include "runs/read_run.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>

#include "support/error.h"
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

std::string place_of(const fs::path& file, std::int64_t number) {
  return fmt::format("{}:{}", file.string(), number);
}

fs::path existing_metrics(const fs::path& folder) {
  const fs::path path = folder / "metrics.jsonl";
  std::error_code missing;
  if (!fs::exists(path, missing))
    unreadable(path.string(), "cannot be opened; is this the folder of a run (job.dump_folder)?");
  return path;
}

}  // namespace

StepReader::StepReader(const fs::path& folder, CutLine cut_line)
    : path_(existing_metrics(folder)), cut_line_(cut_line), file_(path_, FileUse::data) {}

std::optional<StepMetrics> StepReader::next() {
  const auto line = file_.next();
  if (!line || (!file_.is_complete() && cut_line_ == CutLine::left_out)) {
    if (number_ == 0) unreadable(path_.string(), "has no steps; the run ended before its first one");
    return std::nullopt;
  }
  ++number_;
  if (!file_.is_complete())
    unreadable(place_of(path_, number_),
               "the last line is cut off (no newline); delete it to compare the rest");
  return parse_step(*line, path_, number_, &step_);
}

StepMetrics parse_step(std::string_view line, const fs::path& file, std::int64_t number, std::int64_t* step) {
  StepMetrics metrics;
  try {
    metrics = parse_step_metrics(line);
  } catch (const std::invalid_argument& error) {
    unreadable(place_of(file, number), error.what());
  }
  if (metrics.step <= *step)
    unreadable(place_of(file, number),
               fmt::format("step {} follows step {}; steps must ascend", metrics.step, *step));
  *step = metrics.step;
  return metrics;
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
  RunLog log{folder, {}, {}};
  StepReader reader(folder, cut_line);
  while (const auto line = reader.next()) log.steps.add(*line);
  log.config = read_config(folder / "config.toml");
  return log;
}

}  // namespace rondo
