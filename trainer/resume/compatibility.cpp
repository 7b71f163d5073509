// Compares sizes key by key before any shape: a valid folder of another model is not a damaged one.
// Equal shapes do not imply equal models: heads, theta, epsilon and scaling must agree as well.
#include "trainer/resume/compatibility.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "config/derived/batch.h"
#include "config/derived/dtypes.h"
#include "config/derived/optimizer.h"
#include "config/setting_changes.h"
#include "config/sizes.h"
#include "models/parts/model_spec.h"
#include "support/printable.h"
#include "support/text/json_view.h"
#include "trainer/step/float_dtypes.h"
#include "trainer/step/from_config.h"

namespace rondo {
namespace {

// Returns what to set so that this run has their model; "" if it has.
std::string keys_to_set(const std::string& name, const FieldValues& theirs, const Model& ours,
                        bool longest_may_differ) {
  if (name != ours.name) return fmt::format("model.name = \"{}\" (here \"{}\")", name, ours.name);
  std::vector<std::string> keys;
  for (const auto& [key, value] : theirs) {
    const auto own = ours.sizes.find(key);
    if (longest_may_differ && key == "max_seq_len") continue;
    if (own == ours.sizes.end() || own->second != value)
      keys.push_back(fmt::format("model.{} = {} (here {})", key, to_toml(value),
                                 own == ours.sizes.end() ? "without effect" : to_toml(own->second)));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

// Returns whether a setting may change numbers. Folders, timeouts and logging do not, nor do
// settings that keep every bit.
bool changes_numbers(std::string_view key) {
  if (key == "training.global_batch_size") return false;  // the batch in effect is compared
  constexpr std::array<std::string_view, 13> kSilent = {"activation_checkpoint.",
                                                        "checkpoint",
                                                        "comm.",
                                                        "compile.",
                                                        "debug.check_",
                                                        "debug.exceed_memory",
                                                        "debug.hash_",
                                                        "job.",
                                                        "metrics.",
                                                        "profiling.",
                                                        "training.num_prefetch_batches",
                                                        "parallelism.fsdp_res",
                                                        "optimizer.early_step"};
  return key == "compile.numerics" || key == "compile.loss_chunks" || key == "compile.matmul_algorithms" ||
         key == "compile.attention" ||
         std::none_of(kSilent.begin(), kSilent.end(),
                      [&](std::string_view prefix) { return key.starts_with(prefix); });
}

// Returns whether the weights were trained without scaling, and this run trains with it on rows
// that need it.
bool extends_context(const FieldValues& theirs, const FieldValues& ours, const Training& training) {
  const char* factor = "rope_scaling_factor";
  const auto original = ours.find("rope_original_max_seq_len");
  return original != ours.end() && theirs.contains(factor) && theirs.at(factor) == FieldValue(1.0) &&
         training.seq_len > std::get<std::int64_t>(original->second);
}

void check_initial_sizes(const std::string& name, const FieldValues& sizes, const JobConfig& config,
                         const std::string& where) {
  const auto plain = find_model_spec(name)->plain;
  const Model& ours = config.model;
  Model here = ours;
  if (name == ours.name) {
    if (extends_context(sizes, ours.sizes, config.training)) here.sizes["rope_scaling_factor"] = 1.0;
    here.sizes = plain(here.sizes);
  }
  const std::string keys = keys_to_set(name, plain(sizes), here, /*longest_may_differ=*/true);
  if (!keys.empty()) throw Misfit(fmt::format("{} is of another model than this run's; set {}", where, keys));
}

// The batch of a step, over all ranks.
struct BatchOfRun {
  std::int64_t sequences, seq_len, data_parallel;
};

// Returns the batch of the run that saved a checkpoint, or nullopt if the manifest does not tell.
std::optional<BatchOfRun> batch_of(const checkpoint::Manifest& manifest) {
  constexpr std::int64_t kMaxRanks = std::int64_t{1} << 19;
  const auto degree = [&](const char* name) -> std::optional<std::int64_t> {
    const auto value = manifest.layout.find(name);
    if (value == manifest.layout.end()) return std::nullopt;
    return whole_number(*value, 1, kMaxRanks);
  };
  const auto shards = degree("data_parallel_shard"), replicas = degree("data_parallel_replicate");
  if (manifest.settings.empty() || !shards || !replicas) return std::nullopt;
  const Training training = config_of_settings(manifest.settings).training;
  const std::int64_t ranks = *shards * *replicas;
  if (ranks > kMaxRanks) return std::nullopt;  // no product below overflows
  return BatchOfRun{global_batch_size(training, ranks), training.seq_len, ranks};
}

// Returns "4 sequences (256 tokens)".
std::string batch_text(std::int64_t sequences, std::int64_t seq_len) {
  return fmt::format("{} sequence{} ({} tokens)", sequences, sequences == 1 ? "" : "s", sequences * seq_len);
}

// Returns what to set so that `ranks` data-parallel ranks take this batch.
std::string keeping_flags(std::int64_t sequences, std::int64_t local, std::int64_t ranks) {
  if (sequences % ranks != 0)
    return fmt::format("{} sequences cannot be divided among {} ranks: start another number of them",
                       sequences, ranks);
  const std::int64_t each = sequences / ranks;
  std::int64_t smaller = std::min(local, each);
  while (each % smaller != 0) --smaller;
  return fmt::format("Set --training.global_batch_size={}{} to keep the batch", sequences,
                     smaller == local ? "" : fmt::format(" --training.local_batch_size={}", smaller));
}

}  // namespace

void check_own(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where) {
  const Model& ours = config.model;
  const checkpoint::ModelFacts& theirs = manifest.model;
  if (theirs.fingerprint == model_facts(ours.name, ours.sizes).fingerprint) return;
  std::string keys;
  try {
    keys = keys_to_set(theirs.name, sizes_from_text(theirs.name, theirs.sizes, where), ours,
                       /*longest_may_differ=*/false);
  } catch (const Error& error) {
    throw Misfit(error.what());  // not damaged: another version wrote it
  }
  throw Misfit(fmt::format("{} is of another model than this run's; {}, or choose another job.dump_folder",
                           where, keys.empty() ? "start the version that saved it" : "set " + keys));
}

void check_optimizer(const checkpoint::Manifest& manifest, const JobConfig& config,
                     const std::string& where) {
  const std::string reset_hint =
      ", or reset the optimizer with checkpoint.exclude_from_loading = [\"optimizer\"]";
  const std::string key = "optimizer.name = ", name = to_toml(field_value(config.optimizer.name));
  for (const std::string& setting : manifest.settings)
    if (setting.starts_with(key) && setting != key + name)
      throw Misfit(fmt::format("{} holds the moments of another optimizer; set {} (here {}){}", where,
                               printable(setting), name, reset_hint));
  if (!manifest.settings.empty()) {
    const std::vector<std::string> before = config_of_settings(manifest.settings).optimizer.parameter_groups;
    Optimizer saved = config.optimizer;
    saved.parameter_groups = before;
    if (matrices_of_muon(saved, config.model) != matrices_of_muon(config.optimizer, config.model))
      throw Misfit(fmt::format(
          "{} holds the moments of another optimizer for some matrices; set optimizer.parameter_groups = {} "
          "(here {}){}",
          where, to_toml(field_value(before)), to_toml(field_value(config.optimizer.parameter_groups)),
          reset_hint));
  }
  const char* dtype = stored_name(float_named(moment_dtype(config)));
  for (const checkpoint::TensorRecord& tensor : manifest.tensors)
    if ((tensor.name.starts_with("optimizer/exp_avg.") || tensor.name.starts_with("optimizer/momentum.")) &&
        tensor.dtype != dtype)
      throw Misfit(
          fmt::format("{} holds the optimizer's state in {}, which training.dtype = \"{}\" with "
                      "optimizer.implementation = \"{}\" would convert; set them back{}",
                      where, tensor.dtype, name_of(config.training.dtype),
                      name_of(config.optimizer.implementation), reset_hint));
}

void check_batch(const checkpoint::Manifest& manifest, const JobConfig& config, const Layout& layout,
                 const std::string& where) {
  const std::optional<BatchOfRun> saved = batch_of(manifest);
  const std::int64_t ranks = layout.data_parallel(), now = layout.global_batch_size;
  if (config.training.global_batch_size != -1 || !saved || saved->data_parallel == ranks ||
      saved->sequences == now)
    return;
  throw Error(
      ExitCode::config,
      fmt::format("training.global_batch_size = -1: {} data-parallel rank{} with training.local_batch_size = "
                  "{} take {} a step, but {} had {} on {}. {}, or --training.global_batch_size={} to "
                  "change it",
                  ranks, ranks == 1 ? "" : "s", config.training.local_batch_size,
                  batch_text(now, config.training.seq_len), where,
                  batch_text(saved->sequences, saved->seq_len), saved->data_parallel,
                  keeping_flags(saved->sequences, config.training.local_batch_size, ranks), now));
}

std::vector<std::string> effect_change_lines(const checkpoint::Manifest& manifest, const JobConfig& config,
                                             const Layout& layout, const Decoder& model) {
  if (manifest.settings.empty()) return {};
  std::vector<std::string> lines;
  const auto compare = [&](const char* what, const std::string& before, const std::string& now) {
    if (before != now) lines.push_back(fmt::format("{}: {} in the checkpoint, {} now", what, before, now));
  };
  if (const std::optional<BatchOfRun> saved = batch_of(manifest))
    compare("global batch", batch_text(saved->sequences, saved->seq_len),
            batch_text(layout.global_batch_size, config.training.seq_len));
  compare("weight decay", weight_decay_text(config_of_settings(manifest.settings), model),
          weight_decay_text(config, model));
  return lines;
}

std::vector<std::string> setting_change_lines(const checkpoint::Manifest& manifest,
                                              const std::vector<std::string>& settings) {
  constexpr std::size_t kShown = 10, kLongest = 200;
  if (manifest.settings.empty()) return {};
  std::vector<std::string> lines;
  for (const SettingChange& change : changed_settings(manifest.settings, settings))
    if (changes_numbers(change.key) && !(change.key.ends_with("(content)") && change.before == "not set"))
      lines.push_back(fmt::format("{}: {} in the checkpoint, {} now", printable(change.key, kLongest),
                                  printable(change.before, kLongest), printable(change.now, kLongest)));
  if (lines.size() <= kShown) return lines;
  const std::size_t more = lines.size() - kShown;
  lines.resize(kShown);
  lines.push_back(fmt::format("and {} more settings differ from the checkpoint", more));
  return lines;
}

void check_initial(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where) {
  check_initial_sizes(manifest.model.name, sizes_from_text(manifest.model.name, manifest.model.sizes, where),
                      config, where);
  if (manifest.kind == checkpoint::Kind::model && !config.checkpoint.initial_load_model_only)
    throw Misfit(where + " has the weights alone; set checkpoint.initial_load_model_only = true");
}

void check_initial(const hugging_face::Folder& folder, const JobConfig& config, const Decoder& model) {
  const std::string where = folder.path().string();
  check_initial_sizes(folder.config().model, folder.config().sizes, config, where);
  if (config.checkpoint.initial_load_in_hf_quantized && !folder.quantized())
    throw Misfit(
        fmt::format("{} has no quantization_config in its config.json; set "
                    "checkpoint.initial_load_in_hf_quantized = false to take it as it is",
                    where));
  folder.check(hugging_face::parameters_of(model));
}

}  // namespace rondo
