#include "apps/model_source.h"

#include <fmt/format.h>

#include "support/error.h"
#include "trainer/checkpoint/catalog.h"
#include "trainer/checkpoint/committed.h"
#include "trainer/config/derived.h"
#include "trainer/config/load.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

fs::path checkpoint_in(const fs::path& folder) {
  if (checkpoint::has_mark(folder)) return folder;
  const fs::path root = fs::is_directory(folder / "checkpoint") ? folder / "checkpoint" : folder;
  const checkpoint::Selection found = checkpoint::newest_valid(root, checkpoint::Depth::quick);
  if (found.newest) return found.newest->folder;
  throw Error(
      ExitCode::checkpoint,
      fmt::format("{} is no Hugging Face folder (no config.json) and holds no valid checkpoint{}",
                  folder.string(), found.skipped.empty() ? std::string() : ": " + found.skipped.front().why));
}

}  // namespace

ModelSource find_model(const fs::path& path) {
  if (!fs::is_directory(path)) throw Error(ExitCode::usage, fmt::format("{} is no folder", path.string()));
  if (fs::exists(path / "config.json")) return {path, true};
  return {checkpoint_in(path), false};
}

std::optional<JobConfig> config_of_run(const ModelSource& model) {
  if (model.hugging_face) return std::nullopt;
  const fs::path step = fs::weakly_canonical(model.folder);
  const fs::path file = step.parent_path().parent_path() / "config.toml";
  if (!fs::exists(file)) return std::nullopt;
  // One rank reads it, perhaps on another machine: the files of a schedule and of measured products may be
  // missing there, and without a GPU the CPU serves.
  std::vector<std::string> args = {"--job.config_file=" + file.string(),
                                   "--parallelism.pipeline_parallel_degree=1",
                                   "--compile.matmul_algorithms="};
  if (device_of(JobConfig()) == "cpu")
    args.insert(args.end(), {"--job.device=cpu", "--compile.passes=default"});
  return load_config(args);
}

std::string tokenizer_of(const ModelSource& model, const std::string& given) {
  if (!given.empty()) return given;
  if (model.hugging_face && fs::exists(model.folder / "tokenizer.json")) return model.folder.string();
  if (const auto config = config_of_run(model)) return tokenizer_name(*config);
  throw Error(
      ExitCode::data,
      fmt::format("{}: {}; name the tokenizer with --tokenizer: a tokenizer.json, a folder that holds "
                  "one, or bytes",
                  model.folder.string(),
                  model.hugging_face ? "has no tokenizer.json"
                                     : "is in no run folder that says which tokenizer it is for"));
}

}  // namespace rondo
