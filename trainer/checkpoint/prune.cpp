#include "trainer/checkpoint/prune.h"

#include "trainer/checkpoint/committed.h"
#include "trainer/checkpoint/files.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

void delete_checkpoint(const fs::path& root, const Entry& entry) {
  with_retries([&] {
    remove_file(entry.folder / kCommittedFile, kUse);
    sync_folder(entry.folder, kUse);
  });
  const fs::path trash = free_name(root, entry.step, "trash");
  rename_path(entry.folder, trash);
  with_retries([&] { sync_folder(root, kUse); });
  with_retries([&] { remove_tree(trash); });
}

bool is_trash(const fs::path& folder) {
  const auto name = parse_folder_name(folder.filename().string());
  return name && name->role == FolderName::Role::trash;
}

// Sorts the entries into the kept, the damaged and (returned, oldest first) those to delete.
std::vector<Entry> choose(std::vector<Entry> entries, std::size_t keep, PruneReport& report) {
  std::vector<Entry> doomed;
  for (Entry& entry : entries) {
    if (entry.state == State::temp || fs::is_symlink(entry.folder)) continue;
    if (report.kept.size() == keep) {
      doomed.insert(doomed.begin(), std::move(entry));
      continue;
    }
    if (entry.state == State::committed && report.kept.empty()) {
      const Verdict verdict = verify(entry.folder, Depth::sample);
      if (!verdict.valid()) {
        entry.state = State::damaged;
        entry.why = verdict.problems.front();
      }
    }
    if (entry.state == State::committed)
      report.kept.push_back(entry.folder);
    else
      report.damaged.push_back({entry.folder, entry.why});
  }
  return doomed;
}

}  // namespace

PruneReport prune(const fs::path& root, int keep, bool dry_run) {
  PruneReport report;
  if (keep <= 0) return report;
  std::vector<Entry> entries = list(root);
  std::vector<fs::path> trash;
  for (const Entry& entry : entries)
    if (is_trash(entry.folder) && !fs::is_symlink(entry.folder)) trash.push_back(entry.folder);
  for (const Entry& entry : choose(std::move(entries), static_cast<std::size_t>(keep), report)) {
    if (!dry_run) delete_checkpoint(root, entry);
    report.deleted.push_back(entry.folder);
  }
  for (const fs::path& folder : trash) {
    if (!dry_run) with_retries([&] { remove_tree(folder); });
    report.deleted.push_back(folder);
  }
  return report;
}

}  // namespace rondo::checkpoint
