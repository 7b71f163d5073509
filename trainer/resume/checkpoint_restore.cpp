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
#include <functional>
#include <map>

#include "checkpoint/committed.h"
#include "checkpoint/hugging_face/folder.h"
#include "checkpoint/reader.h"
#include "config/derived/paths.h"
#include "parallel/groups/long_work.h"
#include "support/error.h"
#include "support/log.h"
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

// Returns whether a part is reset. Only the first resume resets it; later ones continue it.
bool resets(const Checkpoint& config, const TrainingProgress& saved, const std::string& part) {
  return saved.began_anew != config.exclude_from_loading && excludes(config, part);
}

// Returns the progress of a manifest. Throws Misfit for imported weights.
TrainingProgress saved_progress(const Manifest& manifest, const fs::path& folder) {
  if (manifest.train_state.empty())
    throw Misfit(folder.string() +
                 " has weights that no run has trained; set "
                 "checkpoint.initial_load_model_only = true");
  return progress_of(manifest);
}

// Returns the progress of a run that resumes from `saved`.
TrainingProgress progress_after(const TrainingProgress& saved, const RestoreRequest& request) {
  const Checkpoint& config = request.config.checkpoint;
  TrainingProgress p = saved;
  if (resets(config, saved, "dataloader")) {
    p.data = request.data;
  } else {
    check_same_data(p.data, request.data);
  }
  if (resets(config, saved, "lr_scheduler")) p.schedule_step = 0;
  if (resets(config, saved, "train_state")) p.step = p.tokens_seen = 0;
  p.began_anew = config.exclude_from_loading;
  p.went_back_to = config.load_step;
  return p;
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
        restored = read(reader, folder, /*model_only=*/reader.manifest().kind == Kind::model);
      } catch (const Misfit&) {
        throw;
      } catch (const Error& error) {
        if (error.code() != ExitCode::checkpoint) throw;
        damage = error.what();
      }
    };
    do_on_all(groups_, read_all, "reading " + folder.string());
    if (groups_.maximum({damage.empty() ? 0 : 1})[0] == 0) return restored;
    const auto reasons = groups_.gather_text(fmt::format("restore/damage/{}", attempts_), damage);
    for (const std::string& reason : reasons)
      if (!reason.empty()) log_warning(fmt::format("{} is skipped: {}", folder.string(), reason));
    return std::nullopt;
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
    if (config_.initial_load_in_hf) return from_hugging_face(std::move(fresh));
    if (config_.initial_load_path.empty()) return fresh;
    checkpoint::Reader reader(config_.initial_load_path);
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

  Restored read(checkpoint::Reader& reader, const fs::path& folder, bool model_only) {
    const TrainingProgress saved = saved_progress(reader.manifest(), folder);
    const bool weights_alone = model_only || resets(config_, saved, "optimizer");
    if (!weights_alone) check_optimizer(reader.manifest(), request_.config, folder.string());
    Restored restored;
    restored.resumed = true;
    restored.from = folder;
    restored.progress = progress_after(saved, request_);
    restored.went_back = config_.load_step >= 0 || resets(config_, saved, "train_state");
    read_parts(reader, folder.string(), weights_alone);
    if (saved.began_anew != config_.exclude_from_loading && !config_.exclude_from_loading.empty() &&
        groups_.rank() == 0)
      log_info(fmt::format("checkpoint.exclude_from_loading resets {}",
                           fmt::join(config_.exclude_from_loading, ", ")));
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

// Returns the progress of a run that resumes from `manifest`, after a check of its optimizer.
TrainingProgress check_progress(const Manifest& manifest, const fs::path& folder,
                                const RestoreRequest& request) {
  const TrainingProgress saved = saved_progress(manifest, folder);
  if (manifest.kind == Kind::full && !resets(request.config.checkpoint, saved, "optimizer"))
    check_optimizer(manifest, request.config, folder.string());
  return progress_after(saved, request);
}

void check_initial_state(const RestoreRequest& request, bool warns) {
  const Checkpoint& config = request.config.checkpoint;
  if (config.initial_load_in_hf) {
    const hugging_face::Folder folder(initial_hugging_face_folder(request.config));
    check_initial(folder, request.config, request.model);
    for (const std::string& warning : folder.warnings())
      if (warns) log_warning(warning);
  } else if (!config.initial_load_path.empty()) {
    const checkpoint::Reader reader(config.initial_load_path);
    check_initial(reader.manifest(), request.config, config.initial_load_path);
    if (!config.initial_load_model_only) check_progress(reader.manifest(), config.initial_load_path, request);
  }
}

Start look(const RestoreRequest& request, Depth depth, bool warns) {
  Start start;
  start.checkpoint = choose_checkpoint(request.config, request.root, /*except=*/{}, depth, warns);
  if (start.checkpoint.empty()) {
    check_initial_state(request, warns);
    return start;
  }
  const Manifest manifest = checkpoint::read_committed(start.checkpoint);
  check_own(manifest, request.config, start.checkpoint.string());
  start.done = check_progress(manifest, start.checkpoint, request).step;
  start.begun = begun_of(manifest);
  const Checkpoint& config = request.config.checkpoint;
  start.finished = !config.create_seed_checkpoint && *start.done >= request.config.training.steps &&
                   exports_exist(config, request.root, *start.done);
  if (warns && !start.finished)
    for (const std::string& change : setting_change_lines(manifest, request.settings)) log_warning(change);
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
