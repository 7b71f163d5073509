// The form of comments: clang-format does not reflow them, so a test finds what an edit tore.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kColumns = 100;   // limit of comment lines
constexpr std::size_t kLongLine = 60;   // a shorter line is not a line of filled prose
constexpr std::size_t kShortText = 12;  // a shorter text counts as one word

// A line that is a comment. Indented text after the slashes is a list or a table, not prose.
struct CommentLine {
  std::size_t indent = 0;
  std::string text;
  bool is_prose() const { return !text.empty() && text[0] != ' ' && !text.starts_with("NOLINT"); }
  bool is_short() const { return text.find(' ') == text.npos || text.size() < kShortText; }
};

// Returns false for a line of code.
bool is_comment(const std::string& line, CommentLine& comment) {
  const std::size_t slashes = line.find_first_not_of(' ');
  if (slashes == line.npos || line.compare(slashes, 2, "//") != 0) return false;
  const std::size_t begin = slashes + 2 + (line.compare(slashes + 2, 1, " ") == 0 ? 1 : 0);
  comment = {slashes, line.substr(begin)};
  return true;
}

// Returns the numbers, from 1, of the short lines that the line before has room for, or that stand
// inside a paragraph of filled lines.
std::vector<std::size_t> orphaned_lines(const std::vector<std::string>& lines) {
  std::vector<std::size_t> orphans;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    CommentLine before, line, after;
    if (!is_comment(lines[i - 1], before) || !is_comment(lines[i], line)) continue;
    if (before.indent != line.indent || !before.is_prose() || !line.is_prose() || !line.is_short()) continue;
    const bool ends =
        i + 1 == lines.size() || !is_comment(lines[i + 1], after) || after.text.empty() || !after.is_prose();
    const bool has_room = lines[i - 1].size() + 1 + line.text.size() <= kColumns;
    const bool is_inside = !ends && lines[i - 1].size() > kLongLine && !line.text.ends_with(':');
    if ((ends && has_room) || is_inside) orphans.push_back(i + 1);
  }
  return orphans;
}

// Returns whether `line` is a comment above the limit that could be wrapped, unlike an address.
bool is_too_long(const std::string& line) {
  CommentLine comment;
  return line.size() > kColumns && is_comment(line, comment) && comment.text.find(' ') != line.npos &&
         !comment.text.starts_with("NOLINT");
}

TEST_CASE("a comment above the limit is too long, and code and an address are not") {
  const std::string full(kColumns - 2, 'x');
  CHECK(is_too_long("// word " + full));
  CHECK_FALSE(is_too_long("// " + full));
  CHECK_FALSE(is_too_long("// word"));
  CHECK_FALSE(is_too_long("f(a, b);  // " + full));
}

TEST_CASE("an orphaned line of a comment is found, and lists, tables and code are none") {
  const std::string full(80, 'x');
  CHECK(orphaned_lines({"// " + full, "// torn.", "int a;"}) == std::vector<std::size_t>{2});
  CHECK(orphaned_lines({"// " + full, "// torn", "// and goes on here."}) == std::vector<std::size_t>{2});
  CHECK(orphaned_lines({"// " + full + full, "// torn."}).empty());  // no room
  CHECK(orphaned_lines({"// " + full, "//   word", "// word two and three."}).empty());
  CHECK(orphaned_lines({"// " + full, "// two words and more."}).empty());
  CHECK(orphaned_lines({"// " + full, "f();"}).empty());
}

// Calls check(name, lines) for each C++ file of ours.
template <class Check>
void for_each_source(const Check& check) {
  const std::set<std::string> kinds = {".h", ".cpp", ".cu", ".cuh"};
  for (const auto& folder : fs::directory_iterator(RONDO_SOURCE_DIR)) {
    const std::string name = folder.path().filename();
    if (!folder.is_directory() || name == "build" || name[0] == '.') continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string file = fs::relative(entry.path(), RONDO_SOURCE_DIR);
      if (!kinds.contains(entry.path().extension()) || file.find("gloo_declarations/") != file.npos) continue;
      check(file, lines_of(entry.path()));
    }
  }
}

TEST_CASE("comments have no orphaned line") {
  std::vector<std::string> orphans;
  for_each_source([&](const std::string& file, const std::vector<std::string>& lines) {
    for (const std::size_t line : orphaned_lines(lines)) orphans.push_back(fmt::format("{}:{}", file, line));
  });
  INFO(fmt::format("{}", fmt::join(orphans, "\n")));
  CHECK(orphans.empty());
}

TEST_CASE("no line of comment has more than 100 columns, unless it is one word") {
  std::vector<std::string> long_lines;
  for_each_source([&](const std::string& file, const std::vector<std::string>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (is_too_long(lines[i])) long_lines.push_back(fmt::format("{}:{}", file, i + 1));
  });
  INFO(fmt::format("{}", fmt::join(long_lines, "\n")));
  CHECK(long_lines.empty());
}

}  // namespace
}  // namespace rondo
