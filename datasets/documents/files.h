// What a data path names: files, folders and globs, comma-separated.
//
// - A folder is read recursively. Symlinks are followed; a folder that was seen already is not entered again,
//   so loops end. Names that begin with '.' are skipped, and so are sockets, pipes and devices.
// - A glob has *, ? and [...], none of which crosses a '/'. A folder that matches is read recursively.
// - A name that exists is taken as it is, whatever characters it has, except that a comma always separates.
// Files come in the order of the list, and within one entry sorted by the bytes of their path below it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct SourceFile {
  std::string path;  // to open it
  std::string id;    // the path below the named folder or the glob's fixed part: the same on every machine
};

struct FoundFiles {
  std::vector<SourceFile> files;
  std::int64_t skipped_hidden = 0, skipped_special = 0;
};

// The entries of a list: between commas, without the spaces around them; empty ones are left out.
std::vector<std::string> split_paths(std::string_view paths);

// Throws Error(data) when an entry is missing, matches nothing, or cannot be read.
FoundFiles find_files(std::string_view paths);

// Of ids, sizes and times of change: another one where any of the files was written since. Throws FileError.
std::uint64_t files_hash(const std::vector<SourceFile>& files);

}  // namespace rondo
