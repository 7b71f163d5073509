// Sizes are compared key by key, before any shape is: a folder that is sound but of another model is no
// folder to mend. Equal shapes are not an equal model: heads, theta, epsilon and scaling must agree as well.
#include "trainer/resume/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "models/parts/model_spec.h"
#include "trainer/config/sizes.h"

namespace rondo {
namespace {

// What to set so that this run's model becomes theirs; "" where it is theirs.
std::string keys_to_set(const std::string& name, const FieldValues& theirs, const Model& ours,
                        bool longest_may_differ) {
  if (name != ours.name) return fmt::format("model.name = \"{}\" (here \"{}\")", name, ours.name);
  std::vector<std::string> keys;
  for (const auto& [key, value] : theirs) {
    const auto mine = ours.sizes.find(key);
    if (longest_may_differ && key == "max_seq_len") continue;
    if (mine == ours.sizes.end() || mine->second != value)
      keys.push_back(fmt::format("model.{} = {} (here {})", key, to_toml(value),
                                 mine == ours.sizes.end() ? "without effect" : to_toml(mine->second)));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

void check_initial_sizes(const std::string& name, const FieldValues& sizes, const Model& ours,
                         const std::string& where) {
  const auto plain = find_model_spec(name)->plain;
  Model here = ours;
  if (name == ours.name) here.sizes = plain(ours.sizes);
  const std::string keys = keys_to_set(name, plain(sizes), here, /*longest_may_differ=*/true);
  if (!keys.empty()) throw Misfit(fmt::format("{} is of another model than this run's; set {}", where, keys));
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
    throw Misfit(error.what());  // no damage: another version wrote it
  }
  throw Misfit(fmt::format("{} is of another model than this run's; {}, or choose another job.dump_folder",
                           where, keys.empty() ? "start the version that saved it" : "set " + keys));
}

void check_initial(const checkpoint::Manifest& manifest, const JobConfig& config, const std::string& where) {
  check_initial_sizes(manifest.model.name, sizes_from_text(manifest.model.name, manifest.model.sizes, where),
                      config.model, where);
  if (manifest.kind == checkpoint::Kind::model && !config.checkpoint.initial_load_model_only)
    throw Misfit(where + " holds the weights alone; set checkpoint.initial_load_model_only = true");
}

void check_initial(const hugging_face::Folder& folder, const JobConfig& config, const Decoder& model) {
  const std::string where = folder.path().string();
  check_initial_sizes(folder.config().model, folder.config().sizes, config.model, where);
  if (config.checkpoint.initial_load_in_hf_quantized && !folder.quantized())
    throw Misfit(
        fmt::format("{} has no quantization_config in its config.json; set "
                    "checkpoint.initial_load_in_hf_quantized = false to take it as it is",
                    where));
  folder.check(hugging_face::parameters_of(model));
}

}  // namespace rondo
