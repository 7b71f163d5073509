// Finds a data set by its own path, an entry of training.datasets, or the folder data/NAME. The
// configuration check and the run use the same functions, so they cannot disagree.
#include "config/derived/paths.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/process_start.h"

namespace rondo {
namespace {

constexpr const char* kText = "text";

// Returns the path that the configuration gives, or "". `dataset` and `path` are keys of the
// section.
std::string given_path(const JobConfig& config, const std::string& dataset, const std::string& path) {
  if (!path.empty()) return path;
  for (const std::string& entry : config.training.datasets)
    if (entry.starts_with(dataset + "=")) return entry.substr(dataset.size() + 1);
  return dataset == kText ? here_or_shipped("data/corpus") : "";
}

std::string usual_path(const std::string& dataset) { return "data/" + dataset; }

std::string path_of(const JobConfig& config, const std::string& dataset, const std::string& path) {
  const std::string given = given_path(config, dataset, path);
  return given.empty() ? usual_path(dataset) : given;
}

void require_dataset(const JobConfig& config, const std::string& section, const std::string& dataset,
                     const std::string& path) {
  if (!given_path(config, dataset, path).empty() || std::filesystem::exists(usual_path(dataset))) return;
  throw Error(
      ExitCode::data,
      fmt::format("{0}.dataset = \"{1}\": there is no {2}, and nothing is downloaded. Make a token file of "
                  "its text or JSONL files: `rondo data tokenize --tokenizer DIR --input FILES --output "
                  "{2}.tokens`; then set training.datasets = [\"{1}={2}.tokens\"], or {0}.dataset_path",
                  section, dataset, usual_path(dataset)));
}

}  // namespace

std::string training_path(const JobConfig& config) {
  return path_of(config, config.training.dataset, config.training.dataset_path);
}

std::string validation_path(const JobConfig& config) {
  const Validation& v = config.validation;
  return v.dataset_path.empty() && v.dataset == kText ? "" : path_of(config, v.dataset, v.dataset_path);
}

std::vector<std::string> dataset_names(const JobConfig& config) {
  std::vector<std::string> names = {kText, "c4", "c4_test", "c4_validation"};
  for (const std::string& entry : config.training.datasets) names.push_back(entry.substr(0, entry.find('=')));
  return names;
}

void require_datasets(const JobConfig& config) {
  require_dataset(config, "training", config.training.dataset, config.training.dataset_path);
  const Validation& v = config.validation;
  if (v.enable) require_dataset(config, "validation", v.dataset, v.dataset_path);
}

std::string tokenizer_name(const JobConfig& config) {
  if (config.training.tokenizer != "auto") return config.training.tokenizer;
  if (!config.model.hf_assets_path.empty()) return config.model.hf_assets_path;
  const Checkpoint& c = config.checkpoint;
  return c.enable && c.initial_load_in_hf ? c.initial_load_path : "bytes";
}

std::filesystem::path checkpoint_root(const JobConfig& config) {
  return std::filesystem::path(config.job.dump_folder) / config.checkpoint.folder;
}

std::string initial_hugging_face_folder(const JobConfig& config) {
  const std::string& path = config.checkpoint.initial_load_path;
  return path.empty() ? config.model.hf_assets_path : path;
}

}  // namespace rondo
