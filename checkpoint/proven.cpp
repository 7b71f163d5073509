#include "checkpoint/proven.h"

#include "checkpoint/catalog.h"
#include "checkpoint/files.h"

namespace rondo::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

}  // namespace

Proven::Files Proven::files_of(const fs::path& folder) {
  Files files;
  for (const fs::path& path : paths_in(folder))
    if (const auto facts = facts_of(path))
      files[path.filename().string()] = {facts->st_ino, facts->st_size, nanoseconds(facts->st_mtim),
                                         nanoseconds(facts->st_ctim)};
  return files;
}

void Proven::add(const fs::path& folder) {
  Files files = files_of(folder);
  const std::scoped_lock lock(mutex_);
  known_[folder] = std::move(files);
}

bool Proven::holds(const fs::path& folder) const {
  const Files files = files_of(folder);
  const std::scoped_lock lock(mutex_);
  const auto it = known_.find(folder);
  return it != known_.end() && !files.empty() && it->second == files;
}

std::string Proven::problem_of(const fs::path& folder, const std::stop_token& stop) {
  if (holds(folder)) return "";
  Files files = files_of(folder);  // taken before the files are read, so that a later change is detected
  const Verdict verdict = verify(folder, Depth::full, stop);
  if (!verdict.valid()) return verdict.problems.front();
  if (stop.stop_requested()) return "";
  const std::scoped_lock lock(mutex_);
  known_[folder] = std::move(files);
  return "";
}

}  // namespace rondo::checkpoint
