// A step that the user names must be usable; the search for the newest checkpoint skips damaged
// ones with a warning. A run that went back to a step has newer checkpoints of its own later. So
// the named step counts only until one of them records that it continues from there. Weights alone
// cannot be resumed from, unless nothing is left to train. If anything was committed and nothing is
// usable, the run does not silently start from step 0.
#include "trainer/resume/checkpoint_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "checkpoint/committed.h"
#include "support/error.h"
#include "support/log.h"
#include "support/printable.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using checkpoint::Entry;
using checkpoint::Kind;
using checkpoint::Manifest;
using checkpoint::State;

bool holds(const std::vector<fs::path>& list, const fs::path& folder) {
  return std::find(list.begin(), list.end(), folder) != list.end();
}

[[noreturn]] void refuse(const std::string& message) { throw Error(ExitCode::checkpoint, message); }

[[noreturn]] void refuse_weights(const fs::path& root, const fs::path& newest) {
  refuse(fmt::format(
      "the checkpoints in {} hold weights alone, with no optimizer state to resume from; to train on "
      "from those weights, choose another job.dump_folder and set "
      "checkpoint.initial_load_path = \"{}\"",
      root.string(), newest.string()));
}

// Returns whether a run can resume from the checkpoint. Weights alone suffice only if no step is
// left to train, or none was trained.
bool can_resume_from(const Manifest& manifest, const JobConfig& config) {
  return manifest.kind == Kind::full || manifest.step == 0 || manifest.step >= config.training.steps;
}

// Returns whether the newest checkpoint continues from the step that checkpoint.load_step names.
bool has_gone_back(const std::optional<Entry>& newest, std::int64_t load_step) {
  return newest && newest->manifest->train_state.value("went_back_to", std::int64_t{-1}) == load_step;
}

// Returns whether any save was committed. An unfinished save does not count.
bool anything_was_committed(const fs::path& root) {
  const std::vector<Entry> entries = checkpoint::list(root);
  return std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.state == State::committed || entry.state == State::damaged;
  });
}

fs::path at_step(const JobConfig& config, const fs::path& root, const std::vector<fs::path>& except,
                 checkpoint::Depth depth) {
  const fs::path folder = root / fmt::format("step-{}", config.checkpoint.load_step);
  const checkpoint::Verdict verdict = checkpoint::verify(folder, depth);
  const bool proved_damaged = holds(except, folder);
  if (!verdict.valid() || proved_damaged)
    refuse(fmt::format("checkpoint.load_step = {}: {}; `rondo checkpoint ls {}` lists what is there",
                       config.checkpoint.load_step,
                       proved_damaged ? folder.string() + " is damaged" : verdict.problems.front(),
                       root.string()));
  if (!can_resume_from(checkpoint::read_committed(folder), config)) refuse_weights(root, folder);
  return folder;
}

fs::path at_or_before(const Entry& newest, const JobConfig& config, const fs::path& root,
                      std::vector<fs::path> except, checkpoint::Depth depth, bool warns) {
  if (newest.manifest->train_state.empty())
    refuse(fmt::format(
        "{} holds imported weights, which no run has trained; to begin with them, move them out of the "
        "run folder and set checkpoint.initial_load_path",
        newest.folder.string()));
  if (can_resume_from(*newest.manifest, config)) return newest.folder;
  if (warns)
    log_warning(
        fmt::format("{} has the weights alone, which no run can resume from; looking for an older checkpoint",
                    newest.folder.string()));
  except.push_back(newest.folder);
  while (const std::optional<Entry> older = checkpoint::newest_valid(root, depth, except).newest) {
    if (older->manifest->kind == Kind::full) return older->folder;
    except.push_back(older->folder);
  }
  refuse_weights(root, newest.folder);
}

}  // namespace

fs::path choose_checkpoint(const JobConfig& config, const fs::path& root, const std::vector<fs::path>& except,
                           checkpoint::Depth depth, bool warns) {
  const checkpoint::Selection selection = checkpoint::newest_valid(root, depth, except);
  const std::int64_t load_step = config.checkpoint.load_step;
  if (load_step >= 0 && !has_gone_back(selection.newest, load_step))
    return at_step(config, root, except, depth);
  for (const checkpoint::Skipped& skipped : selection.skipped)
    if (warns) log_warning(fmt::format("{} is skipped: {}", skipped.folder.string(), skipped.why));
  if (selection.newest) return at_or_before(*selection.newest, config, root, except, depth, warns);
  if (!anything_was_committed(root)) {
    if (warns && !selection.skipped.empty())
      log_warning(root.string() + " has no complete checkpoint: the run starts at step 0");
    return {};
  }
  if (!except.empty())
    refuse(fmt::format(
        "no checkpoint in {} can be read by all ranks: the warnings above name the ranks and hosts. Check "
        "that "
        "each host mounts the same folder; `rondo checkpoint verify {}` on such a host lists what it lacks",
        root.string(), root.string()));
  refuse(fmt::format(
      "none of the checkpoints in {} is valid; `rondo checkpoint verify {}` lists the damage. Move the "
      "folder away to start again",
      root.string(), root.string()));
}

fs::path received_folder(const std::string& folder, const fs::path& root, int rank) {
  const fs::path path = folder;
  const bool is_step = checkpoint::parse_folder_name(path.filename().string()).has_value();
  // A name of a step may vanish during a failing save, so only the parent is looked up on disk.
  const auto is_root = [&](const fs::path& parent) {
    std::error_code ignored;
    return parent == root || fs::weakly_canonical(parent, ignored) == fs::weakly_canonical(root, ignored);
  };
  if (!is_step || !is_root(path.parent_path()))
    throw Error(
        ExitCode::config,
        fmt::format("rank {} received the checkpoint \"{}\", which is not in the folder \"{}\" of its own "
                    "job.dump_folder and checkpoint.folder; set both to the same value on all ranks",
                    rank, printable(folder), root.string()));
  return path;
}

}  // namespace rondo
