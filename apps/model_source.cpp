#include "apps/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/catalog.h"
#include "checkpoint/committed.h"
#include "config/derived/device.h"
#include "config/derived/paths.h"
#include "config/load.h"
#include "datasets/documents/files.h"
#include "datasets/tokenizer/tokenizer_file.h"
#include "support/error.h"
#include "support/files/file.h"
#include "support/files/hub_advice.h"
#include "support/text/json_view.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxEnvironmentBytes = 1 << 20;

// Returns the configuration file if `folder` is a run folder, which also has events.jsonl.
std::optional<fs::path> config_file_of_run(const fs::path& folder) {
  std::error_code ignored;
  const fs::path file = folder / "config.toml";
  if (!fs::exists(file, ignored) || !fs::exists(folder / "events.jsonl", ignored)) return std::nullopt;
  return file;
}

// Reads the configuration of a run for one rank, perhaps on another machine. Resets the schedule
// file and the matmul table, which may be missing here. Falls back to the CPU without a GPU.
JobConfig read_config_of_run(const fs::path& file) {
  std::vector<std::string> args = {"--job.config_file=" + file.string(),
                                   "--parallelism.pipeline_parallel_degree=1",
                                   "--compile.matmul_algorithms="};
  if (device_of(JobConfig()) == TargetDevice::cpu)
    args.insert(args.end(),
                {"--job.device=cpu", "--compile.passes=default", "--quantize.linear.float8.emulate=true",
                 "--quantize.linear.mx.emulate=true", "--quantize.grouped_mm.float8.emulate=true"});
  return load_config(args);
}

// Returns the working folder of a run, or "" if it is unknown.
fs::path working_folder_of(const fs::path& run) {
  try {
    const auto env =
        json_or_discarded<nlohmann::json>(read_file(run / "env.json", kMaxEnvironmentBytes, FileUse::data));
    return env.at("working_folder").get<std::string>();
  } catch (const std::exception&) {
    return {};
  }
}

// Resolves comma-separated paths as a run in `there` sees them: a path that does not exist here may
// exist there.
std::string seen_from(const fs::path& there, const std::string& paths) {
  std::vector<std::string> seen;
  for (const std::string& path : split_paths(paths)) {
    std::error_code ignored;
    const bool only_there = !path.empty() && !fs::exists(path, ignored) && fs::exists(there / path, ignored);
    seen.push_back(only_there ? (there / path).string() : path);
  }
  return fmt::format("{}", fmt::join(seen, ","));
}

fs::path checkpoint_in(const fs::path& folder) {
  if (checkpoint::has_mark(folder)) return folder;
  const checkpoint::Selection selection =
      checkpoint::newest_valid(checkpoint_root_of(folder), checkpoint::Depth::quick);
  if (selection.newest) return selection.newest->folder;
  if (const auto file = config_file_of_run(folder); file && !read_config_of_run(*file).checkpoint.enable)
    throw Error(ExitCode::checkpoint,
                fmt::format("{}: the run saved nothing, since checkpoint.enable = false; train with "
                            "--checkpoint.enable=true",
                            folder.string()));
  throw Error(ExitCode::checkpoint,
              fmt::format("{} is not a Hugging Face folder (no config.json) and has no valid checkpoint{}",
                          folder.string(),
                          selection.skipped.empty() ? std::string() : ": " + selection.skipped.front().why));
}

}  // namespace

fs::path checkpoint_root_of(const fs::path& given) {
  std::error_code ignored;
  if (fs::is_directory(given / "checkpoint", ignored)) return given / "checkpoint";
  const auto file = config_file_of_run(given);
  return file ? given / read_config_of_run(*file).checkpoint.folder : given;
}

ModelSource find_model(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    throw Error(ExitCode::checkpoint, fmt::format("{} is not a folder{}", path.string(), hub_advice(path)));
  if (fs::exists(path / "config.json", ignored)) return {path, true};
  return {checkpoint_in(path), false};
}

std::optional<JobConfig> config_of_run(const ModelSource& model) {
  if (model.hugging_face) return std::nullopt;
  const fs::path step = fs::weakly_canonical(model.folder);
  const auto file = config_file_of_run(step.parent_path().parent_path());
  if (!file) return std::nullopt;
  JobConfig config = read_config_of_run(*file);
  const fs::path there = working_folder_of(file->parent_path());
  config.training.dataset_path = seen_from(there, training_path(config));
  config.validation.dataset_path = seen_from(there, validation_path(config));
  config.training.tokenizer = seen_from(there, tokenizer_name(config));
  return config;
}

std::string tokenizer_of(const ModelSource& model, const std::string& given) {
  if (!given.empty()) return given;
  if (model.hugging_face && !tokenizer_files_in(model.folder).empty()) return model.folder.string();
  if (const auto config = config_of_run(model)) return tokenizer_name(*config);
  throw Error(ExitCode::data,
              fmt::format("{}: {}; name the tokenizer with --tokenizer: a tokenizer.json, tiktoken.model, "
                          "tokenizer.model or tekken.json, a folder that holds "
                          "one, or bytes",
                          model.folder.string(),
                          model.hugging_face ? "has no file of a tokenizer"
                                             : "is not in a run folder that names its tokenizer"));
}

}  // namespace rondo
