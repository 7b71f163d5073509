#include "trainer/observe/metrics/step_lines.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/files/file.h"

namespace rondo {
namespace {

// Of a line; -1 where it has none.
std::int64_t step_of(std::string_view line) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto found = value.is_object() ? value.find("step") : value.end();
  return found != value.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

}  // namespace

EarlierSteps go_on_after(std::int64_t step, AppendFile& file) {
  const std::string text = read_file(file.path(), std::numeric_limits<std::int64_t>::max(), FileUse::run);
  EarlierSteps steps;
  std::size_t keeps = 0;
  bool keeping = true;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::int64_t found = step_of(std::string_view(text).substr(begin, end - begin));
    keeping = keeping && found > steps.last_kept && found <= step;
    if (keeping) {
      steps.last_kept = found;
      keeps = end + 1;
    }
    steps.last = std::max(steps.last, found);
  }
  if (keeps == text.size()) return steps;
  std::string superseded = text.substr(keeps);
  if (!superseded.ends_with('\n')) superseded += '\n';
  std::filesystem::path aside = file.path();
  AppendFile(aside.replace_extension(".superseded.jsonl")).append(superseded);
  file.cut(static_cast<std::int64_t>(keeps));
  return steps;
}

}  // namespace rondo
