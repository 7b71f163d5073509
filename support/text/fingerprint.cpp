#include "support/text/fingerprint.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace rondo {

std::string fingerprint_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace rondo
