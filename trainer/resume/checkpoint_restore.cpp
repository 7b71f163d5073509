// `check_start` refuses what can be refused on every rank, before anything is changed. Rank 0
// broadcasts its choice or its error, so that no rank continues alone. Then all ranks read, some
// for longer than the timeout of a collective. Damage on any rank is exchanged, and all ranks skip
// that checkpoint and choose again. A valid checkpoint of another run is a different type of error
// and ends the run, since an older one would hide the mistake. Parts are read in the order of the
// manifest, so each byte is read once. An optimizer that is not read is zeroed, as an earlier
// attempt may have filled it.
#include "trainer/resume/checkpoint_restore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "config/derived/paths.h"
#include "config/setting_changes.h"
#include "parallel/groups/long_work.h"
#include "support/error.h"
#include "support/log.h"
#include "support/machine/machine.h"
#include "trainer/resume/checkpoint_choice.h"
#include "trainer/resume/compatibility.h"
#include "trainer/resume/load_weights.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using checkpoint::Depth;
using checkpoint::Kind;
using checkpoint::Manifest;

bool excludes(const Checkpoint& config, const std::string& part) {
  const auto& list = config.exclude_from_loading;
  return std::find(list.begin(), list.end(), part) != list.end();
}

// What a start reads from a checkpoint: its own run's, or that of another run.
struct Source {
  const Manifest& manifest;
  fs::path folder;
  TrainingProgress saved;
  bool own;
};

bool is_refused(const std::function<void()>& check) {
  try {
    check();
    return false;
  } catch (const Error&) {
    return true;
  }
}

// Returns whether a part of checkpoint.exclude_from_loading is reset. A run resets a part once,
// since the same command resumes it. It resets a part again if the part no longer fits: without a
// reset the start would be refused.
bool resets(const Source& source, const RestoreRequest& request, const std::string& part) {
  if (!excludes(request.config.checkpoint, part)) return false;
  if (!source.own || !source.saved.reset_parts.contains(part)) return true;
  if (part == "dataloader") return is_refused([&] { check_same_data(source.saved.data, request.data); });
  if (part == "optimizer")
    return is_refused([&] { check_optimizer(source.manifest, request.config, source.folder.string()); });
  return false;
}

// Returns the progress of a manifest. Throws Misfit for imported weights.
TrainingProgress saved_progress(const Manifest& manifest, const fs::path& folder) {
  if (manifest.train_state.empty())
    throw Misfit(folder.string() +
                 " has weights that no run has trained; set "
                 "checkpoint.initial_load_model_only = true");
  return progress_of(manifest);
}

// Returns the progress of a run that continues from `source`. Throws Misfit or Error(data) if the
// optimizer or the data does not fit and is not reset.
TrainingProgress progress_after(const Source& source, const RestoreRequest& request) {
  TrainingProgress p = source.saved;
  if (!source.own) p.reset_parts.clear();
  const auto reset = [&](const std::string& part) {
    if (!resets(source, request, part)) return false;
    p.reset_parts[part] = source.saved.step;
    return true;
  };
  if (p.step > 0 && p.step < request.config.training.steps)
    check_batch(source.manifest, request.config, request.layout, source.folder.string());
  if (!reset("optimizer") && source.manifest.kind == Kind::full)
    check_optimizer(source.manifest, request.config, source.folder.string());
  if (reset("dataloader"))
    p.data = request.data;
  else
    check_same_data(p.data, request.data);
  if (reset("lr_scheduler")) p.schedule_step = 0;
  if (reset("train_state")) p.step = p.tokens_seen = 0;
  p.went_back_to = request.config.checkpoint.load_step;
  return p;
}

// Returns lines about this start: what checkpoint.exclude_from_loading resets, each part that the
// run has reset before, and data whose content cannot be compared.
std::vector<std::string> start_lines(const Source& source, const RestoreRequest& request) {
  std::vector<std::string> now, lines;
  for (const std::string& part : request.config.checkpoint.exclude_from_loading) {
    if (resets(source, request, part)) {
      if (std::find(now.begin(), now.end(), part) == now.end()) now.push_back(part);
      continue;
    }
    const std::int64_t step = source.saved.reset_parts.at(part);
    lines.push_back(fmt::format(
        "checkpoint.exclude_from_loading: this run has reset {}{} already, so it is loaded now; to reset it "
        "once more, start a new run with checkpoint.initial_load_path = \"{}\" and "
        "checkpoint.initial_load_model_only = false",
        part, step < 0 ? "" : fmt::format(" at step {}", step), source.folder.string()));
  }
  if (!now.empty())
    lines.push_back(fmt::format("checkpoint.exclude_from_loading resets {}", fmt::join(now, ", ")));
  if (!source.saved.data.content && !resets(source, request, "dataloader"))
    lines.push_back(source.folder.string() +
                    " has no hash of the data's content, so names, sizes and lengths alone were compared");
  return lines;
}

// Throws Misfit, with one line per problem, if an intact checkpoint does not match the tensors of
// this run.
void check_tensors(const Manifest& manifest, const std::vector<StatePart>& parts, const std::string& where) {
  std::vector<std::string> problems;
  for (const StatePart& part : parts) {
    const checkpoint::TensorRecord* stored = manifest.find(part.name);
    if (stored == nullptr) {
      problems.push_back(fmt::format("{} is not in it", part.name));
    } else if (stored->shape != part.place.sizes()) {
      problems.push_back(fmt::format("{} is [{}] in it and [{}] in this run", part.name,
                                     fmt::join(stored->shape, ", "), fmt::join(part.place.sizes(), ", ")));
    }
  }
  constexpr std::size_t kShown = 8;
  if (problems.empty()) return;
  const std::size_t count = problems.size();
  if (count > kShown) {
    problems.resize(kShown);
    problems.push_back(fmt::format("and {} more", count - kShown));
  }
  throw Misfit(fmt::format("{} does not fit this run's model:\n  {}", where, fmt::join(problems, "\n  ")));
}

class Restorer {
 public:
  Restorer(const RestoreRequest& request, const Start& start, const std::vector<StatePart>& parts,
           ProcessGroups& groups)
      : request_(request),
        start_(start),
        config_(request.config.checkpoint),
        parts_(parts),
        groups_(groups) {}

  Restored run() {
    while (true) {
      const auto choose = [this] { return next_choice().string(); };
      const std::string chosen =
          do_on_first(groups_, choose, fmt::format("restore/{}", ++attempts_), "choosing a checkpoint")
              .value();
      if (chosen.empty()) return begin();
      if (const auto restored = try_reading(received_folder(chosen, request_.root, groups_.rank())))
        return *restored;
      skipped_.push_back(chosen);
    }
  }

 private:
  fs::path next_choice() const {
    if (skipped_.empty()) return start_.checkpoint;
    return choose_checkpoint(request_.config, request_.root, skipped_, Depth::quick, /*warns=*/true);
  }

  // Returns nullopt on all ranks if the checkpoint proves damaged on any of them.
  std::optional<Restored> try_reading(const fs::path& folder) {
    std::string damage;
    std::optional<Restored> restored;
    const auto read_all = [&] {
      try {
        checkpoint::Reader reader(folder);
        check_own(reader.manifest(), request_.config, folder.string());
        restored = read(reader, folder, /*own=*/true);
      } catch (const Misfit&) {
        throw;
      } catch (const Error& error) {
        if (error.code() != ExitCode::checkpoint) throw;
        damage = groups_.size() == 1 ? error.what() : on_this_host(error.what());
      }
    };
    do_on_all(groups_, read_all, "reading " + folder.string());
    if (groups_.maximum({damage.empty() ? 0 : 1})[0] == 0) return restored;
    const auto reasons = groups_.gather_text(fmt::format("restore/damage/{}", attempts_), damage);
    for (const std::string& reason : reasons)
      if (!reason.empty()) log_warning(fmt::format("{} is skipped: {}", folder.string(), reason));
    return std::nullopt;
  }

  // Ranks may see different files under one path, such as where a host lacks a mount.
  std::string on_this_host(const std::string& problem) const {
    return fmt::format("rank {} on {}: {}", groups_.rank(), host_name(), problem);
  }

  // Returns the initial state of a run without checkpoints.
  Restored begin() {
    Restored fresh;
    do_on_all(
        groups_, [&] { fresh = initial_state(); }, "reading the initial state");
    return fresh;
  }

  Restored initial_state() {
    Restored fresh;
    fresh.progress.data = request_.data;
    for (const std::string& part : config_.exclude_from_loading) fresh.progress.reset_parts[part] = 0;
    if (config_.initial_load_in_hf) return from_hugging_face(std::move(fresh));
    if (config_.initial_load_path.empty()) return fresh;
    checkpoint::Reader reader(config_.initial_load_path);
    if (config_.initial_load_model_only) {
      read_parts(reader, config_.initial_load_path, /*model_only=*/true);
      fresh.from = config_.initial_load_path;
      return fresh;
    }
    return read(reader, config_.initial_load_path, /*own=*/false);
  }

  Restored from_hugging_face(Restored fresh) {
    fresh.from = initial_hugging_face_folder(request_.config);
    const hugging_face::Folder folder(fresh.from);
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

  Restored read(checkpoint::Reader& reader, const fs::path& folder, bool own) {
    const Manifest& manifest = reader.manifest();
    const Source source{manifest, folder, saved_progress(manifest, folder), own};
    Restored restored;
    restored.resumed = own;
    restored.from = folder;
    restored.progress = progress_after(source, request_);
    restored.went_back = own && (config_.load_step >= 0 || resets(source, request_, "train_state"));
    if (!manifest.settings.empty()) {
      const JobConfig before = config_of_settings(manifest.settings);
      restored.rates = {learning_rate(before, std::max<std::int64_t>(0, source.saved.schedule_step - 1)),
                        learning_rate(before, source.saved.schedule_step)};
    }
    read_parts(reader, folder.string(),
               manifest.kind == Kind::model || resets(source, request_, "optimizer"));
    if (groups_.rank() == 0)
      for (const std::string& line : start_lines(source, request_)) log_info(line);
    return restored;
  }

  void read_parts(checkpoint::Reader& reader, const std::string& where, bool model_only) {
    std::vector<StatePart> selected;
    for (const StatePart& part : parts_)
      if (part.of_model() || !model_only) selected.push_back(part);
    // An earlier attempt at a damaged checkpoint may have filled the optimizer.
    for (const StatePart& part : parts_)
      if (!part.of_model() && model_only) at::Tensor(part.tensor).zero_();
    check_tensors(reader.manifest(), selected, "checkpoint " + where);
    // The order of the manifest, so that each byte is read once.
    std::sort(selected.begin(), selected.end(),
              [](const StatePart& a, const StatePart& b) { return a.name < b.name; });
    for (const StatePart& part : selected) {
      at::Tensor shard = part.tensor;
      load_weights(shard, reader, part.name, part.place);
    }
  }

  const RestoreRequest& request_;
  const Start& start_;
  const Checkpoint& config_;
  const std::vector<StatePart>& parts_;
  ProcessGroups& groups_;
  std::vector<fs::path> skipped_;
  int attempts_ = 0;
};

// Returns whether the requested exports next to the last checkpoint exist.
bool exports_exist(const Checkpoint& config, const fs::path& root, std::int64_t step) {
  const std::string last = (root / fmt::format("step-{}", step)).string();
  return config.load_only ||
         ((!config.last_save_model_only || checkpoint::has_mark(last + std::string(checkpoint::kWeights))) &&
          (!config.last_save_in_hf || fs::exists(last + "-hf")));
}

// Returns the progress of a run that continues from `manifest`.
TrainingProgress check_progress(const Manifest& manifest, const fs::path& folder, bool own,
                                const RestoreRequest& request) {
  return progress_after({manifest, folder, saved_progress(manifest, folder), own}, request);
}

// Returns the settings in which this run differs from a checkpoint, one line each.
std::vector<std::string> change_lines(const Manifest& manifest, const RestoreRequest& request) {
  std::vector<std::string> lines =
      effect_change_lines(manifest, request.config, request.layout, request.model);
  for (std::string& line : setting_change_lines(manifest, request.settings)) lines.push_back(std::move(line));
  return lines;
}

// Returns the progress of a run that begins. Throws Misfit if nothing could be trained.
TrainingProgress check_initial_state(const RestoreRequest& request, bool warns) {
  const Checkpoint& config = request.config.checkpoint;
  if (config.initial_load_in_hf) {
    const hugging_face::Folder folder(initial_hugging_face_folder(request.config));
    check_initial(folder, request.config, request.model);
    for (const std::string& warning : folder.warnings())
      if (warns) log_warning(warning);
  } else if (!config.initial_load_path.empty()) {
    const checkpoint::Reader reader(config.initial_load_path);
    check_initial(reader.manifest(), request.config, config.initial_load_path);
    if (warns)
      for (const std::string& change : change_lines(reader.manifest(), request))
        config.initial_load_model_only ? log_info(change) : log_warning(change);
    if (!config.initial_load_model_only) {
      TrainingProgress progress =
          check_progress(reader.manifest(), config.initial_load_path, /*own=*/false, request);
      if (progress.step > request.config.training.steps)
        throw Misfit(fmt::format(
            "{} is of step {}, and training.steps = {}: raise it, or set checkpoint.exclude_from_loading = "
            "[\"train_state\"] to count from 0",
            config.initial_load_path, progress.step, request.config.training.steps));
      return progress;
    }
  }
  return {};
}

Start look(const RestoreRequest& request, Depth depth, bool warns) {
  Start start;
  start.checkpoint = choose_checkpoint(request.config, request.root, /*except=*/{}, depth, warns);
  if (start.checkpoint.empty()) {
    const TrainingProgress progress = check_initial_state(request, warns);
    start.step = progress.step;
    start.tokens_seen = progress.tokens_seen;
    return start;
  }
  const Manifest manifest = checkpoint::read_committed(start.checkpoint);
  check_own(manifest, request.config, start.checkpoint.string());
  const TrainingProgress progress = check_progress(manifest, start.checkpoint, /*own=*/true, request);
  start.done = start.step = progress.step;
  start.tokens_seen = progress.tokens_seen;
  start.begun = begun_of(manifest);
  const Checkpoint& config = request.config.checkpoint;
  start.finished = !config.create_seed_checkpoint && *start.done >= request.config.training.steps &&
                   exports_exist(config, request.root, *start.done);
  if (warns && !start.finished)
    for (const std::string& change : change_lines(manifest, request)) log_warning(change);
  return start;
}

}  // namespace

Start check_start(const RestoreRequest& request, bool first) {
  if (first) return look(request, Depth::quick, /*warns=*/true);
  const Start start = look(request, Depth::manifest, /*warns=*/false);
  // A rank that ends here does not rendezvous, so it must reach the same result as the first rank.
  return start.finished ? look(request, Depth::quick, /*warns=*/false) : start;
}

Restored restore(const RestoreRequest& request, const Start& start, const std::vector<StatePart>& parts,
                 ProcessGroups& groups) {
  return Restorer(request, start, parts, groups).run();
}

}  // namespace rondo
