#include "parallel/groups/nccl_errors.h"

#include <string_view>

namespace rondo {
namespace {

// Returns what stands between `begin` and the next `end`, or the end of `text`; "" without `begin`.
std::string between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.find(begin);
  if (at == text.npos) return "";
  text.remove_prefix(at + begin.size());
  return std::string(text.substr(0, text.find(end)));
}

}  // namespace

std::string lack_of_memory(const std::string& error) {
  for (const char* const mark : {"CUDA calloc", "CUDA malloc", "out of memory"})
    if (const std::size_t at = error.find(mark); at != std::string::npos) {
      const std::size_t newline = error.rfind('\n', at),
                        begin = newline == std::string::npos ? 0 : newline + 1;
      return error.substr(begin, error.find('\n', at) - begin);
    }
  return "";
}

// "NCCL error in: FILE:LINE, KIND, NCCL version V\nMEANING\nLast error:\nTEXT"
std::string reason_of(const std::string& error) {
  const std::string first_line = error.substr(0, error.find('\n'));
  const std::string kind = between(between(first_line, "NCCL error in: ", ", NCCL version"), ", ", "\n");
  if (kind.empty()) return first_line;
  const std::string last = between(error, "Last error:\n", "\n");
  return "NCCL: " + kind + (last.empty() ? "" : "; " + last);
}

}  // namespace rondo
