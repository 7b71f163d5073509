// Reads a file in blocks from its beginning, since all lines are needed to check that their steps
// ascend. A line with many experts has a hundred thousand numbers, and a long run has gigabytes of
// them. So only the beginning of a long line is parsed; the rest is checked to end as an object and
// to contain no second one.
#include "runs/metrics/step_lines.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "support/files/file.h"
#include "support/text/json_view.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr std::size_t kBlock = 1 << 20;
constexpr std::size_t kLongLine = 4096;
constexpr std::string_view kBeginning = "{\"step\":";

// Returns the step of a line; -1 without one.
std::int64_t step_of(std::string_view line) {
  if (line.size() > kLongLine && line.starts_with(kBeginning)) {
    const std::string_view number = line.substr(kBeginning.size(), line.find(',') - kBeginning.size());
    const bool whole = line.ends_with('}') && line.find(kBeginning, 1) == line.npos;
    return whole ? number_in<std::int64_t>(number, 0, std::numeric_limits<std::int64_t>::max()).value_or(-1)
                 : -1;
  }
  const nlohmann::json value = json_or_discarded<nlohmann::json>(line);
  const auto it = value.is_object() ? value.find("step") : value.end();
  return it != value.end() && it->is_number_integer() ? it->get<std::int64_t>() : -1;
}

// Visits all complete lines in order, without their newlines.
template <class Visit>
void for_each_line(const File& file, const Visit& visit) {
  std::string text;
  std::int64_t offset = 0;
  for (std::size_t begin = 0, count = kBlock; count > 0;) {
    text.erase(0, std::exchange(begin, 0));
    const std::size_t searched = text.size();
    text.resize(searched + kBlock);
    count = file.read_some_at(offset, std::as_writable_bytes(std::span(text).subspan(searched)));
    text.resize(searched + count);
    offset += static_cast<std::int64_t>(count);
    for (std::size_t end = text.find('\n', searched); end != text.npos; end = text.find('\n', begin)) {
      visit(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
  }
}

}  // namespace

EarlierSteps go_on_after(std::int64_t step, AppendFile& file) {
  const File lines = File::open(file.path(), FileUse::run);
  EarlierSteps steps;
  std::int64_t kept_bytes = 0, read_bytes = 0;
  bool keeping = true;
  for_each_line(lines, [&](std::string_view line) {
    read_bytes += std::ssize(line) + 1;
    const std::int64_t line_step = step_of(line);
    keeping = keeping && line_step > steps.last_kept && line_step <= step;
    if (keeping) {
      steps.last_kept = line_step;
      kept_bytes = read_bytes;
    }
    steps.last = std::max(steps.last, line_step);
  });
  const std::int64_t bytes = lines.bytes();
  if (kept_bytes == bytes) return steps;
  std::string superseded(static_cast<std::size_t>(bytes - kept_bytes), '\0');
  lines.read_at(kept_bytes, std::as_writable_bytes(std::span(superseded)));
  if (!superseded.ends_with('\n')) superseded += '\n';
  std::filesystem::path aside = file.path();
  AppendFile(aside.replace_extension(".superseded.jsonl")).append(superseded);
  file.cut(kept_bytes);
  return steps;
}

}  // namespace rondo
