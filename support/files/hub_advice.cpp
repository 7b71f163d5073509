#include "support/files/hub_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace rondo {

std::string hub_advice(const std::filesystem::path& path) {
  const std::string name = path.string(), owner = path.parent_path().string();
  const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '-' || c == '_' || c == '.';
  });
  std::error_code ignored;
  if (!is_name || owner.empty() || owner[0] == '.' || owner.find('/') != owner.npos || !path.has_filename() ||
      std::filesystem::exists(owner, ignored))
    return "";
  return fmt::format(
      "; nothing is fetched from the Hugging Face Hub: `hf download {0} --local-dir {0}` fetches a "
      "repository into a folder of this name",
      name);
}

}  // namespace rondo
