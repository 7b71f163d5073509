// Temporary folders of a program.
#pragma once

#include <string>

namespace rondo {

// Creates a folder "NAME-XXXXXX" in TMPDIR, or in /tmp if that is not set. Throws Error(resources).
std::string make_temporary_folder(const std::string& name);

}  // namespace rondo
