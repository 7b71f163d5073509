// The commit that this program was built from. cmake/commit.cmake writes the source in every build.
#pragma once

#include <string_view>

namespace rondo {

// "0123456789ab", with "-dirty" after it where files differed from the commit; "unknown" outside of git.
std::string_view build_commit();

}  // namespace rondo
