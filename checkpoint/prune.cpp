// A plan reads and may take long; carrying it out changes the folder and is short. So a save need not wait
// while older checkpoints are hashed. Entries come newest first; once all places are taken, those of earlier
// steps go.
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

// Why a committed checkpoint takes no place, as far as name and manifest say; nullptr: it may take one.
const char* why_beside(const Entry& entry) {
  if (role_of(entry.folder) == Role::replaced) return "a later save of its step replaced it";
  return entry.manifest->kind == Kind::model ? "the weights alone: no run resumes from it" : nullptr;
}

bool may_take_a_place(const Entry& entry) {
  return entry.state == State::committed && why_beside(entry) == nullptr;
}

// Whether anything is older than `keep` that may take a place.
bool anything_may_go(const std::vector<Entry>& entries, std::size_t keep) {
  std::size_t taken = 0;
  std::int64_t oldest = 0;
  for (const Entry& entry : entries) {
    if (taken == keep && entry.step < oldest) return true;
    if (taken == keep || !may_take_a_place(entry)) continue;
    ++taken;
    oldest = entry.step;
  }
  return false;
}

// Puts entries into their lists, the newest first.
class Planner {
 public:
  Planner(std::size_t keep, bool reads, Proven& proven, const std::stop_token& stop)
      : keep_(keep), reads_(reads), proven_(proven), stop_(stop) {}

  void place(const Entry& entry) {
    const bool full = plan_.kept.size() == keep_;
    if (full && entry.step < oldest_) {
      plan_.deleted.insert(plan_.deleted.begin(), entry.folder);
      if (may_take_a_place(entry)) plan_.lost_steps.push_back(entry.step);
    } else if (entry.state != State::committed) {
      plan_.damaged.push_back({entry.folder, entry.why});
    } else if (const char* why = why_beside(entry)) {
      plan_.beside.push_back({entry.folder, why});
    } else if (std::string damage = damage_of(entry.folder); !damage.empty()) {
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
  std::int64_t oldest_ = 0;  // step of the last that is kept
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
