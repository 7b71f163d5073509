// Folders for what a program needs while it runs.
#pragma once

#include <string>

namespace rondo {

// A new folder "NAME-XXXXXX" below TMPDIR, or below /tmp where that is not set. Throws Error(resources).
std::string make_temporary_folder(const std::string& name);

}  // namespace rondo
