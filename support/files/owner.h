// Owners of files, for what is found by its name in a folder that other users may write.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

namespace rondo {

// Returns the user that owns a file or folder; links are followed. nullopt if it cannot be looked
// at.
std::optional<uid_t> owner_of(const std::filesystem::path& path);

// Returns whether this user or root owns a file or folder. A file server may map users, such as
// root to nobody: then an owner counts who also owns a new file in the same folder.
bool is_own(const std::filesystem::path& path);

}  // namespace rondo
