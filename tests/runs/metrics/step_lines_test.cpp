// Tests which lines of a file a resumed run keeps.
#include "runs/metrics/step_lines.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/runs/metrics/scratch.h"

namespace rondo {

TEST_CASE("lines after one that is torn, not an object or not a later step are superseded") {
  const Scratch scratch;
  const std::string first = R"({"step":1})", second = R"({"step":4})";
  const auto kept = [&](const std::string& text, std::int64_t step) {
    write_text(scratch / "a.jsonl", text);
    AppendFile file(scratch / "a.jsonl");
    go_on_after(step, file);
    return text_of(scratch / "a.jsonl");
  };
  CHECK(kept(first + "\n" + second + "\n", 3) == first + "\n");
  CHECK(kept(first + "\n" + second + "\n", 4) == first + "\n" + second + "\n");
  CHECK(kept(first + "\n" + second, 4) == first + "\n");
  CHECK(kept(first + "\n[7]\n" + second + "\n", 4) == first + "\n");
  CHECK(kept(second + "\n" + first + "\n", 9) == second + "\n");
  CHECK(kept("", 9) == "");
  CHECK(lines_of(scratch / "a.superseded.jsonl") ==
        std::vector{second, second, std::string("[7]"), second, first});
}

TEST_CASE("lines longer than a block are kept, and torn long lines are not") {
  const Scratch scratch;
  const auto line = [](int step, std::size_t bytes) {
    return "{\"step\":" + std::to_string(step) + ",\"a\":[" + std::string(bytes, '1') + "]}\n";
  };
  const std::string whole = line(1, 3'000'000) + line(2, 5'000) + line(3, 2'000'000);
  const auto kept = [&](const std::string& text, std::int64_t step) {
    write_text(scratch / "a.jsonl", text);
    AppendFile file(scratch / "a.jsonl");
    const EarlierSteps steps = go_on_after(step, file);
    CHECK(text_of(scratch / "a.jsonl") == text.substr(0, std::filesystem::file_size(scratch / "a.jsonl")));
    return steps.last_kept;
  };
  CHECK(kept(whole, 9) == 3);
  CHECK(kept(whole, 2) == 2);
  CHECK(kept(whole + line(4, 9'000).substr(0, 8'000) + "\n" + line(5, 10), 9) == 3);
  CHECK(kept(whole + line(4, 9'000).substr(0, 8'000) + line(5, 10), 9) == 3);
}

}  // namespace rondo
