// A file is read in blocks and from its beginning, since only all the lines tell whether their steps rise. A
// line of many experts has a hundred thousand numbers, and a long run gigabytes of them: of a long line only
// the beginning is parsed, and that it ends as an object and holds no second one.
#include "runs/metrics/step_lines.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "support/files/file.h"
#include "support/text/numbers.h"

namespace rondo {
namespace {

constexpr std::size_t kBlock = 1 << 20;
constexpr std::size_t kLongLine = 4096;
constexpr std::string_view kBeginning = "{\"step\":";

// Of a line; -1 where it has none.
std::int64_t step_of(std::string_view line) {
  if (line.size() > kLongLine && line.starts_with(kBeginning)) {
    const std::string_view number = line.substr(kBeginning.size(), line.find(',') - kBeginning.size());
    const bool whole = line.ends_with('}') && line.find(kBeginning, 1) == line.npos;
    return whole ? number_in<std::int64_t>(number, 0, std::numeric_limits<std::int64_t>::max()).value_or(-1)
                 : -1;
  }
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto found = value.is_object() ? value.find("step") : value.end();
  return found != value.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

// The lines that end, one after the other, without their ends.
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
  std::int64_t keeps = 0, seen = 0;  // bytes
  bool keeping = true;
  for_each_line(lines, [&](std::string_view line) {
    seen += std::ssize(line) + 1;
    const std::int64_t found = step_of(line);
    keeping = keeping && found > steps.last_kept && found <= step;
    if (keeping) {
      steps.last_kept = found;
      keeps = seen;
    }
    steps.last = std::max(steps.last, found);
  });
  const std::int64_t bytes = lines.bytes();
  if (keeps == bytes) return steps;
  std::string superseded(static_cast<std::size_t>(bytes - keeps), '\0');
  lines.read_at(keeps, std::as_writable_bytes(std::span(superseded)));
  if (!superseded.ends_with('\n')) superseded += '\n';
  std::filesystem::path aside = file.path();
  AppendFile(aside.replace_extension(".superseded.jsonl")).append(superseded);
  file.cut(keeps);
  return steps;
}

}  // namespace rondo
