// Planning reads and may take long; carrying out the plan changes the folder and is short. So a
// save does not wait while older checkpoints are hashed. Entries are sorted newest first; once
// `keep` checkpoints are found, entries of earlier steps are deleted.
#include "checkpoint/prune.h"

#include <algorithm>
#include <utility>

#include "checkpoint/committed.h"
#include "checkpoint/files.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;
using Role = FolderName::Role;

Role role_of(const fs::path& folder) { return parse_folder_name(folder.filename().string())->role; }

void delete_checkpoint(const fs::path& root, const fs::path& folder) {
  with_retries([&] {
    remove_file(folder / kCommittedFile, kUse);
    sync_folder(folder, kUse);
  });
  const fs::path trash = free_name(root, parse_folder_name(folder.filename().string())->step, "trash");
  rename_path(folder, trash);
  with_retries([&] { sync_folder(root, kUse); });
  with_retries([&] { remove_tree(trash); });
}

// Returns why a committed checkpoint does not count, according to name and manifest; nullptr if it
// may count.
const char* why_not_counted(const Entry& entry) {
  if (role_of(entry.folder) == Role::replaced) return "a later save of its step replaced it";
  return entry.manifest->kind == Kind::model ? "the weights alone: no run can resume from it" : nullptr;
}

bool may_count(const Entry& entry) {
  return entry.state == State::committed && why_not_counted(entry) == nullptr;
}

// Returns whether any entry is older than the `keep` newest that may count.
bool anything_may_go(const std::vector<Entry>& entries, std::size_t keep) {
  std::size_t counted = 0;
  std::int64_t oldest = 0;
  for (const Entry& entry : entries) {
    if (counted == keep && entry.step < oldest) return true;
    if (counted == keep || !may_count(entry)) continue;
    ++counted;
    oldest = entry.step;
  }
  return false;
}

// Sorts entries, the newest first, into the lists of the plan.
class Planner {
 public:
  Planner(std::size_t keep, bool reads, Proven& proven, const std::stop_token& stop)
      : keep_(keep), reads_(reads), proven_(proven), stop_(stop) {}

  void place(const Entry& entry) {
    const bool full = plan_.kept.size() == keep_;
    if (full && entry.step < oldest_) {
      plan_.deleted.insert(plan_.deleted.begin(), entry.folder);
      if (may_count(entry)) plan_.lost_steps.push_back(entry.step);
    } else if (entry.state != State::committed) {
      plan_.damaged.push_back({entry.folder, entry.why});
    } else if (const char* why = why_not_counted(entry)) {
      plan_.beside.push_back({entry.folder, why});
    } else if (std::string damage = damage_of(entry.folder); !damage.empty()) {
      if (!has_mark(entry.folder)) return;  // a run deletes it
      plan_.damaged.push_back({entry.folder, std::move(damage)});
    } else {
      plan_.kept.push_back(entry.folder);
      oldest_ = entry.step;
    }
  }

  PrunePlan take() { return std::move(plan_); }

 private:
  std::string damage_of(const fs::path& folder) {
    if (!reads_) return "";
    const bool newest = plan_.kept.empty();
    if (!newest || !proven_.holds(folder)) return proven_.problem_of(folder, stop_);
    const Verdict verdict = verify(folder, Depth::sample, stop_);
    return verdict.valid() ? "" : verdict.problems.front();
  }

  std::size_t keep_;
  bool reads_;
  Proven& proven_;
  const std::stop_token& stop_;
  std::int64_t oldest_ = 0;  // step of the last kept checkpoint
  PrunePlan plan_;
};

}  // namespace

PrunePlan plan_prune(const fs::path& root, int keep, Proven& proven, const std::stop_token& stop) {
  if (keep <= 0) return {};
  const auto places = static_cast<std::size_t>(keep);
  std::vector<Entry> entries = list(root);
  std::vector<fs::path> trash;
  std::erase_if(entries, [&](const Entry& entry) {
    const bool link = fs::is_symlink(entry.folder);
    if (!link && role_of(entry.folder) == Role::trash) trash.push_back(entry.folder);
    return link || entry.state == State::temp;
  });
  Planner planner(places, anything_may_go(entries, places), proven, stop);
  for (const Entry& entry : entries) {
    planner.place(entry);
    if (stop.stop_requested()) return {};
  }
  PrunePlan plan = planner.take();
  plan.deleted.insert(plan.deleted.end(), trash.begin(), trash.end());
  return plan;
}

void carry_out(const fs::path& root, const PrunePlan& plan, const std::stop_token& stop) {
  for (const fs::path& folder : plan.deleted) {
    if (stop.stop_requested()) return;
    if (role_of(folder) == Role::trash)
      with_retries([&] { remove_tree(folder); });
    else
      delete_checkpoint(root, folder);
  }
}

}  // namespace rondo::checkpoint
