// tests/compiler/passes/golden/PASS.ir has cases: an input graph, a line `----`, and the expected
// graph. A line of `====` separates cases. RONDO_BLESS=1 rewrites the expected graphs; review the
// change like code. A case may begin with `# options: KEY=VALUE ...` (fields of CompileOptions).
// The table of passes in docs/graph.md is compared and rewritten in the same way.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"

using namespace rondo;

namespace {

constexpr std::string_view kCaseEnd = "====\n", kExpected = "----\n";

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> split(const std::string& text, std::string_view separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t at; (at = text.find(separator, start)) != std::string::npos; start = at + separator.size())
    parts.push_back(text.substr(start, at - start));
  parts.push_back(text.substr(start));
  return parts;
}

CompileOptions options_of(const std::string& input) {
  constexpr std::string_view kMark = "# options:";
  CompileOptions options;
  const std::size_t mark = input.find(kMark);
  if (mark == std::string::npos) return options;
  std::istringstream line(input.substr(mark + kMark.size(), input.find('\n', mark) - mark - kMark.size()));
  for (std::string word; line >> word;) {
    const std::size_t equals = word.find('=');
    options.set(word.substr(0, equals), word.substr(equals + 1));
  }
  return options;
}

// Comments above a case stay with its input.
std::string run_case(const std::string& input, const ir::PassInfo& pass, const std::string& file) {
  ir::Graph graph = ir::parse(input, file);
  ir::verify(graph, "parse");
  pass.run(graph, options_of(input));
  ir::verify(graph, pass.name);
  return ir::print(graph);
}

}  // namespace

TEST_CASE("every pass turns its golden inputs into the expected graphs") {
  const bool bless = std::getenv("RONDO_BLESS") != nullptr;
  for (const ir::PassInfo& pass : ir::all_passes()) {
    const std::filesystem::path path = std::filesystem::path(RONDO_SOURCE_DIR) /
                                       "tests/compiler/passes/golden" / (std::string(pass.name) + ".ir");
    INFO(path.string());
    REQUIRE(std::filesystem::exists(path));
    std::string blessed;
    for (const std::string& one : split(read(path), kCaseEnd)) {
      const std::string input = one.substr(0, one.find(kExpected));
      const std::string result = run_case(input, pass, path.string());
      if (!blessed.empty()) blessed += kCaseEnd;
      (blessed += input) += kExpected;
      blessed += result;
      if (bless) continue;
      REQUIRE(one.find(kExpected) != std::string::npos);
      INFO(input);
      CHECK(result == one.substr(one.find(kExpected) + kExpected.size()));
    }
    if (bless) std::ofstream(path) << blessed;
  }
}

TEST_CASE("docs/graph.md shows the table of the passes") {
  const std::filesystem::path path = std::filesystem::path(RONDO_SOURCE_DIR) / "docs/graph.md";
  const std::string page = read(path), table = ir::passes_as_markdown();
  const std::size_t begin = page.find("| pass |"), end = page.find("\n\n", begin) + 1;
  REQUIRE(begin != std::string::npos);
  if (std::getenv("RONDO_BLESS") != nullptr) {
    std::ofstream(path) << page.substr(0, begin) << table << page.substr(end);
  } else {
    CHECK(page.substr(begin, end - begin) == table);
  }
}

TEST_CASE("every golden file belongs to a pass") {
  std::set<std::string> names;
  for (const ir::PassInfo& pass : ir::all_passes()) names.insert(std::string(pass.name) + ".ir");
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(RONDO_SOURCE_DIR) /
                                                               "tests/compiler/passes/golden"))
    CHECK(names.count(entry.path().filename().string()) == 1);
}
