// Rank 0 chooses and broadcasts its answer, or its error, so that no rank goes on alone. Then all ranks read;
// damage on any one is exchanged, and all pass over that checkpoint together and choose again. A checkpoint
// that is sound but not this run's is another type of error and ends the run: an older one would hide the
// mistake. Parts are read in the order of the manifest, so each byte is read once. An optimizer that is not
// read is zeroed, as an earlier attempt may have filled it.
#include "trainer/resume/checkpoint_restore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "models/parts/model_spec.h"
#include "support/error.h"
#include "support/log.h"
#include "trainer/checkpoint/reader.h"
#include "trainer/config/derived.h"
#include "trainer/config/sizes.h"
#include "trainer/hugging_face/folder.h"
#include "trainer/resume/checkpoint_choice.h"
#include "trainer/resume/load_weights.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using checkpoint::Kind;
using checkpoint::Manifest;

// A sound checkpoint that is not this run's: passing over it in silence would hide the user's mistake.
struct Misfit : Error {
  explicit Misfit(const std::string& message) : Error(ExitCode::checkpoint, message) {}
};

bool excludes(const Checkpoint& config, const std::string& part) {
  const auto& list = config.exclude_from_loading;
  return std::find(list.begin(), list.end(), part) != list.end();
}

// What will not do for this run although it is undamaged: all of it, a line each.
void check_fits(const Manifest& manifest, const std::vector<StatePart>& parts, const std::string& where) {
  std::vector<std::string> problems;
  for (const StatePart& part : parts) {
    const checkpoint::TensorRecord* stored = manifest.find(part.name);
    if (stored == nullptr) {
      problems.push_back(fmt::format("{} is not in it", part.name));
    } else if (stored->shape != part.place.sizes()) {
      problems.push_back(fmt::format("{} is [{}] there and [{}] in this run", part.name,
                                     fmt::join(stored->shape, ", "), fmt::join(part.place.sizes(), ", ")));
    }
  }
  constexpr std::size_t kShown = 8;
  if (problems.empty()) return;
  const std::size_t all = problems.size();
  if (all > kShown) {
    problems.resize(kShown);
    problems.push_back(fmt::format("and {} more", all - kShown));
  }
  throw Misfit(fmt::format("{} does not fit this run's model:\n  {}", where, fmt::join(problems, "\n  ")));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void check_same_model(const Manifest& manifest, const JobConfig& config, const std::string& where) {
  const checkpoint::ModelFacts ours = model_facts(config.model.name, config.model.sizes);
  if (manifest.model.fingerprint == ours.fingerprint) return;
  std::vector<std::string> theirs = lines_of(manifest.model.sizes), only_theirs, only_ours;
  std::vector<std::string> mine = lines_of(ours.sizes);
  theirs.insert(theirs.begin(), "name = " + manifest.model.name);
  mine.insert(mine.begin(), "name = " + ours.name);
  for (const std::string& line : theirs)
    if (std::find(mine.begin(), mine.end(), line) == mine.end()) only_theirs.push_back(line);
  for (const std::string& line : mine)
    if (std::find(theirs.begin(), theirs.end(), line) == theirs.end()) only_ours.push_back(line);
  throw Misfit(
      fmt::format("{} is of another model: it has {}; this run has {}. Restore those [model] settings, or "
                  "choose another job.dump_folder",
                  where, fmt::join(only_theirs, ", "), fmt::join(only_ours, ", ")));
}

class Restorer {
 public:
  Restorer(const RestoreRequest& request, const std::vector<StatePart>& parts, ProcessGroups& groups)
      : request_(request), config_(request.config.checkpoint), parts_(parts), groups_(groups) {}

  Restored run() {
    while (true) {
      const std::string chosen =
          agreed([this] { return choose_checkpoint(request_.config, request_.root, passed_over_).string(); });
      if (chosen.empty()) return begin();
      if (const auto restored = try_reading(chosen)) return *restored;
      passed_over_.push_back(chosen);
    }
  }

 private:
  // Rank 0's answer, or its error, on all ranks.
  std::string agreed(const std::function<std::string()>& answer) {
    std::string text;
    if (groups_.rank() == 0) {
      try {
        text = "+" + answer();
      } catch (const Error& error) {
        text = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
      }
    }
    text = groups_.broadcast_text(fmt::format("restore/{}", ++questions_), text);
    if (text[0] == '+') return text.substr(1);
    const std::size_t space = text.find(' ');
    throw Error(static_cast<ExitCode>(std::stoi(text.substr(0, space))), text.substr(space + 1));
  }

  // nullopt: damaged, as at least one rank found; all ranks know.
  std::optional<Restored> try_reading(const fs::path& folder) {
    std::string damage;
    std::optional<Restored> restored;
    try {
      checkpoint::Reader reader(folder);
      check_same_model(reader.manifest(), request_.config, folder.string());
      restored = read(reader, folder, /*model_only=*/reader.manifest().kind == Kind::model);
    } catch (const Misfit&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ExitCode::checkpoint) throw;
      damage = error.what();
    }
    if (groups_.maximum({damage.empty() ? 0 : 1})[0] == 0) return restored;
    const auto reasons = groups_.gather_text(fmt::format("restore/damage/{}", questions_), damage);
    for (const std::string& reason : reasons)
      if (!reason.empty()) log_warning(fmt::format("{} is passed over: {}", folder.string(), reason));
    return std::nullopt;
  }

  // A run that has no checkpoint yet.
  Restored begin() {
    Restored fresh;
    fresh.progress.data = request_.data;
    if (config_.initial_load_in_hf) return from_hugging_face(std::move(fresh));
    if (config_.initial_load_path.empty()) return fresh;
    checkpoint::Reader reader(config_.initial_load_path);
    const checkpoint::ModelFacts& model = reader.manifest().model;
    check_sizes(model.name, sizes_from_text(model.name, model.sizes, config_.initial_load_path),
                config_.initial_load_path);
    if (config_.initial_load_model_only) {
      read_parts(reader, config_.initial_load_path, /*model_only=*/true);
      fresh.from = config_.initial_load_path;
      return fresh;
    }
    Restored restored = read(reader, config_.initial_load_path, false);
    restored.resumed = restored.went_back = false;
    return restored;
  }

  Restored from_hugging_face(Restored fresh) {
    fresh.from = initial_hugging_face_folder(request_.config);
    const hugging_face::Folder folder(fresh.from);
    if (groups_.rank() == 0)
      for (const std::string& warning : folder.warnings()) log_warning(warning);
    if (config_.initial_load_in_hf_quantized && !folder.quantized())
      throw Misfit(
          fmt::format("{} has no quantization_config in its config.json; set "
                      "checkpoint.initial_load_in_hf_quantized = false to take it as it is",
                      fresh.from.string()));
    folder.check(hugging_face::parameters_of(request_.model));
    check_sizes(folder.config().model, folder.config().sizes, folder.path().string());
    std::map<std::string, std::string> names;
    for (const ParameterRule& rule : request_.model.parameters())
      names["model/" + rule.name] = rule.hugging_face_name;
    for (const ExpertBias& bias : request_.model.expert_biases())
      names["model/" + bias.name] = bias.hugging_face_name;
    for (const StatePart& part : parts_) {
      if (!part.of_model()) continue;
      at::Tensor shard = part.tensor;
      load_weights(shard, folder, names.at(part.name), part.place);
    }
    return fresh;
  }

  // Equal shapes are not an equal model: heads, theta, epsilon and scaling must agree as well. Only the
  // longest sequence may differ.
  void check_sizes(const std::string& name, const FieldValues& sizes, const std::string& where) const {
    const Model& ours = request_.config.model;
    if (name != ours.name)
      throw Misfit(fmt::format("{} is of model.name = \"{}\", this run of \"{}\"", where, name, ours.name));
    const auto plain = find_model_spec(name)->plain;
    const FieldValues theirs = plain(sizes), here = plain(ours.sizes);
    std::vector<std::string> problems;
    for (const auto& [key, value] : theirs)
      if (const auto mine = here.find(key);
          mine == here.end() || (key != "max_seq_len" && mine->second != value))
        problems.push_back(fmt::format("model.{} = {} (here {})", key, to_toml(value),
                                       mine == here.end() ? "without effect" : to_toml(mine->second)));
    if (!problems.empty())
      throw Misfit(
          fmt::format("{} is another model than this run's; set {}", where, fmt::join(problems, ", ")));
  }

  Restored read(checkpoint::Reader& reader, const fs::path& folder, bool model_only) {
    const Manifest& manifest = reader.manifest();
    if (manifest.kind == Kind::model && !model_only)
      throw Misfit(folder.string() +
                   " holds the weights alone; set checkpoint.initial_load_model_only = true");
    Restored restored;
    restored.resumed = true;
    restored.from = folder;
    Progress& p = restored.progress =
        progress_from_json(manifest.train_state, manifest.data, folder.string());
    // Once: a run that resumes again goes on with what began anew then.
    const bool anew = !config_.exclude_from_loading.empty() && p.began_anew != config_.exclude_from_loading;
    const auto excluded = [&](const char* part) { return anew && excludes(config_, part); };
    if (excluded("dataloader")) {
      p.data = request_.data;
    } else {
      check_same_data(p.data, request_.data);
    }
    if (excluded("lr_scheduler")) p.schedule_step = 0;
    if (excluded("train_state")) p.step = p.tokens_seen = 0;
    read_parts(reader, folder.string(), model_only || excluded("optimizer"));
    if (anew && groups_.rank() == 0)
      log_info(fmt::format("checkpoint.exclude_from_loading: {} begins anew",
                           fmt::join(config_.exclude_from_loading, ", ")));
    restored.went_back = config_.load_step >= 0 || excluded("train_state");
    p.began_anew = config_.exclude_from_loading;
    p.went_back_to = config_.load_step;
    return restored;
  }

  void read_parts(checkpoint::Reader& reader, const std::string& where, bool model_only) {
    std::vector<StatePart> wanted;
    for (const StatePart& part : parts_)
      if (part.of_model() || !model_only) wanted.push_back(part);
    // An attempt at a checkpoint that proved damaged may have left its optimizer here.
    for (const StatePart& part : parts_)
      if (!part.of_model() && model_only) at::Tensor(part.tensor).zero_();
    check_fits(reader.manifest(), wanted, "checkpoint " + where);
    // In the order of the manifest, so that each byte is read once.
    std::sort(wanted.begin(), wanted.end(),
              [](const StatePart& a, const StatePart& b) { return a.name < b.name; });
    for (const StatePart& part : wanted) {
      at::Tensor shard = part.tensor;
      load_weights(shard, reader, part.name, part.place);
    }
  }

  const RestoreRequest& request_;
  const Checkpoint& config_;
  const std::vector<StatePart>& parts_;
  ProcessGroups& groups_;
  std::vector<fs::path> passed_over_;
  int questions_ = 0;
};

}  // namespace

Restored restore(const RestoreRequest& request, const std::vector<StatePart>& parts, ProcessGroups& groups) {
  return Restorer(request, parts, groups).run();
}

}  // namespace rondo
