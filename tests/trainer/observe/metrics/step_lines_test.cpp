// Which lines of a file a resumed run goes on behind.
#include "trainer/observe/metrics/step_lines.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/trainer/observe/metrics/scratch.h"

namespace rondo {

TEST_CASE("lines behind one that is torn, no object or no step further are superseded") {
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

}  // namespace rondo
