// README's speeds, asked of the pages of results.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/docs/page.h"

namespace rondo {
namespace {

// In the table below the heading of a page, the row's first number, rounded: "171.3 ms".
std::string median_in(const std::string& page, const std::string& heading, const std::string& row) {
  const std::vector<std::string> lines = lines_of(kRoot / "docs/results" / page);
  auto line = std::find(lines.begin(), lines.end(), "## " + heading);
  for (; line != lines.end() && (line->empty() || line->front() != '#' || line->ends_with(heading)); ++line)
    if (line->starts_with("| " + row + " |")) {
      const std::vector<std::string> words = words_of(line->substr(row.size() + 5));
      return words[1] == "ms" ? fmt::format("{:.0f} ms", std::stod(words[0])) : words[0] + " " + words[1];
    }
  return "";
}

TEST_CASE("README's speeds are the medians of the results that it names") {
  const std::string avx2 = "cpu_avx2_2026-11-27.md", avx512 = "cpu_debug_2026-11-27.md",
                    fp32 = "Llama 3, 4 x 256 tokens, fp32", bf16 = "Llama 3, 4 x 256 tokens, bf16";
  for (const std::string& page : {avx2, avx512}) must_have("README.md", "(docs/results/" + page + ")");
  for (const auto& [ours, theirs, cast] : {std::tuple{"Rondo, replay", "rondo replay", ""},
                                           {"Rondo, eager", "rondo eager", ""},
                                           {"PyTorch, eager", "PyTorch eager", ", weights cast"},
                                           {"torch.compile", "torch.compile", ", weights cast"},
                                           {"matrix products alone", "matrix products alone", ""}}) {
    const std::string start = median_in(avx2, "Start", theirs),
                      cold = median_in(avx2, "Start", theirs + std::string(", cold cache"));
    std::string line = fmt::format("| {} |", ours);
    for (const std::string& cell :
         {median_in(avx2, fp32, theirs), median_in(avx512, fp32, theirs),
          median_in(avx512, bf16, theirs + std::string(cast)), start.empty() ? cold : start})
      line += cell.empty() ? " |" : fmt::format(" {} |", cell);
    must_have("README.md", line);
  }
  for (const char* heading :
       {"4 x 256 tokens, bf16",
        "1 x 2048 tokens in documents of 256 (PyTorch: causal attention over whole rows), bf16"}) {
    const auto of = [&](const char* row) { return median_in("cpu_debug_2026-11-23.md", heading, row); };
    must_have("README.md",
              fmt::format("{} a step beside {}", of("rondo replay"), of("PyTorch eager, weights cast")));
  }
}

}  // namespace
}  // namespace rondo
