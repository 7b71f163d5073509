#include "trainer/run/compare_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "support/error.h"

namespace rondo {
namespace {

std::string line_at(const std::string& text, std::ptrdiff_t at) {
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', static_cast<std::size_t>(at) - 1) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void compare_collectives(const std::vector<const CompiledStep*>& steps, ProcessGroups& groups) {
  for (const CompiledStep* step : steps) {
    const std::string mine = step->collective_sequence();
    const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(mine));
    const std::vector<std::int64_t> hashes = groups.all_gather(hash);
    if (std::all_of(hashes.begin(), hashes.end(), [&](std::int64_t other) { return other == hashes[0]; }))
      continue;
    const std::vector<std::string> texts =
        groups.all_gather_text("collectives/" + step->function().name, mine);
    const auto other =
        std::find_if(texts.begin(), texts.end(), [&](const std::string& text) { return text != texts[0]; });
    RONDO_ASSERT(other != texts.end(), "equal collective sequences have different hashes");
    const auto first = std::mismatch(other->begin(), other->end(), texts[0].begin(), texts[0].end());
    throw Error(ExitCode::graph, fmt::format("ranks 0 and {} would call different collectives in {}; the "
                                             "first that differs: \"{}\" and \"{}\"",
                                             other - texts.begin(), step->function().name,
                                             line_at(texts[0], first.second - texts[0].begin()),
                                             line_at(*other, first.first - other->begin())));
  }
}

}  // namespace rondo
