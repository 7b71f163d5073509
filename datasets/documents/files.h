// Lists the files of a data path: comma-separated files, folders and globs.
//
// - Folders are read recursively. Symlinks are followed. A folder that was visited is not entered
//   again, so loops end. Names that begin with '.' are skipped, and so are sockets, pipes
//   and devices.
// - Unfinished files (*.incomplete, *.tmp, *.part, *.swp, *.lock, *.bak, *~) are skipped unless
//   they are named themselves.
// - A glob has *, ? and [...], none of which matches a '/'. A matching folder is read recursively.
// - An existing name is taken literally, even if it contains glob characters. A comma always
//   separates entries.
// Files are in the order of the list, and within one entry sorted by the bytes of their path
// below it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/format.h"

namespace rondo {

struct SourceFile {
  std::string path;  // to open it
  std::string id;    // the path below the named folder or the glob's fixed part: the same on every machine
  // `unknown`: recognised when it is opened.
  Recognised as = {FileFormat::unknown};
};

struct FoundFiles {
  std::vector<SourceFile> files;
  std::int64_t skipped_hidden = 0, skipped_special = 0, skipped_unfinished = 0;
  std::string first_unfinished{};  // its id
};

// Returns the entries between commas, without the spaces around them and without empty entries.
std::vector<std::string> split_paths(std::string_view paths);

// Returns the files of a data path. Throws Error(data) when an entry is missing, matches nothing,
// or cannot be read.
FoundFiles find_files(std::string_view paths);

// Returns a hash of the files' ids, sizes, modification times and sampled contents. Throws as
// sampled_hash does.
std::uint64_t files_hash(const std::vector<SourceFile>& files);

}  // namespace rondo
