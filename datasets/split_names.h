// Finds the splits of a published data set (train, validation, test) by the names of its files and
// folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "datasets/documents/files.h"

namespace rondo {

// Returns a warning if data files of an entry of a data path are of a training split and others of
// a held-out one, "" otherwise. A split's name is the first word of a file's or a folder's name.
std::string warn_of_splits(std::string_view entry, const std::vector<SourceFile>& files);

}  // namespace rondo
