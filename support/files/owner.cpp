#include "support/files/owner.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files/file.h"

namespace rondo {

namespace fs = std::filesystem;

std::optional<uid_t> owner_of(const fs::path& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? std::optional(facts.st_uid) : std::nullopt;
}

bool is_own(const fs::path& path) {
  const std::optional<uid_t> owner = owner_of(path);
  if (!owner || *owner == ::geteuid() || *owner == 0) return owner.has_value();
  const fs::path probe = folder_of(path) / fmt::format(".owner-{}", ::getpid());
  try {
    const File file = File::create(probe, FileUse::output);
    const bool is_mapped = owner_of(probe) == owner;
    remove_file(probe, FileUse::output);
    return is_mapped;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace rondo
