// How often a text stands in another one.
#pragma once

#include <string_view>

namespace rondo {

inline std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace rondo
