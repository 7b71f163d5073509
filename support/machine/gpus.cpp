#include "support/machine/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/text/numbers.h"

namespace rondo {

int visible_gpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::string list = visible;
    return list.empty() || list[0] == '-' ? 0
                                          : static_cast<int>(std::count(list.begin(), list.end(), ',')) + 1;
  }
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && number_in(std::string_view(name).substr(6), 0, 1 << 20)) ++count;
  }
  return count;
}

}  // namespace rondo
