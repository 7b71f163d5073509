// A page that says "a test shows it" is only as good as the test's name in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/runs/metrics/scratch.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

TEST_CASE("tests named in docs/reliability.md exist") {
  // By the beginning of their names, in italics.
  static const std::regex test_case("TEST_CASE\\(\\s*((?:\"(?:[^\"\\\\]|\\\\.)*\"\\s*)+)");
  static const std::regex entry("(?:rondo_script_test|add_test)\\((?:NAME )?\"([^\"]+)\"");
  static const std::regex literal("\"((?:[^\"\\\\]|\\\\.)*)\"");
  static const std::regex named("\\*([^*\\n]+)\\*");
  const auto all = [](const std::regex& what, const std::string& text) {
    std::vector<std::string> found;
    for (auto match = std::sregex_iterator(text.begin(), text.end(), what); match != std::sregex_iterator();
         ++match)
      found.push_back((*match)[1]);
    return found;
  };
  std::vector<std::string> tests;
  for (const auto& file : fs::recursive_directory_iterator(RONDO_SOURCE_DIR "/tests")) {
    const std::string extension = file.path().extension();
    if (extension == ".cpp")
      for (const std::string& literals : all(test_case, text_of(file.path()))) {
        tests.emplace_back();
        for (const std::string& part : all(literal, literals)) tests.back() += part;
      }
    if (file.path().filename() == "CMakeLists.txt")
      for (const std::string& name : all(entry, text_of(file.path()))) tests.push_back(name);
  }
  const std::string page =
      std::regex_replace(text_of(RONDO_SOURCE_DIR "/docs/reliability.md"), std::regex("\\*\\*"), "");
  const std::vector<std::string> names = all(named, page);
  CHECK(names.size() > 40);
  std::vector<std::string> wrong;
  for (const std::string& name : names)
    if (std::none_of(tests.begin(), tests.end(),
                     [&](const std::string& test) { return test.starts_with(name); }))
      wrong.push_back("no test's name begins with " + name);
  INFO(fmt::format("{}", fmt::join(wrong, "\n")));
  CHECK(wrong.empty());
}

}  // namespace
}  // namespace rondo
