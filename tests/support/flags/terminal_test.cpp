#include "support/flags/terminal.h"

#include <catch2/catch_test_macros.hpp>

using rondo::wrapped;

TEST_CASE("a row of help that is wider than the terminal goes on below its last cell") {
  const std::string page =
      "rondo x [flags]\n\n"
      "  --device NAME  a100 or h100, or several of them\n"
      "  -h             this page\n";
  CHECK(wrapped(page, 49) == page);
  CHECK(wrapped(page, 46) ==
        "rondo x [flags]\n\n"
        "  --device NAME  a100 or h100, or several of\n"
        "                 them\n"
        "  -h             this page\n");
}

TEST_CASE("a cell that would be narrow goes on below the first one, and a long word stays whole") {
  CHECK(wrapped("  --device NAME  a100 or h100", 20) == "  --device NAME \n  a100 or h100");
  CHECK(wrapped("see https://example.org/a/long/page now", 10) ==
        "see\nhttps://example.org/a/long/page\nnow");
}
