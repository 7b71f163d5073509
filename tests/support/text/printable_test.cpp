#include "support/text/printable.h"

#include <catch2/catch_test_macros.hpp>

using rondo::printable;

TEST_CASE("SEC-10: a shown text gives no orders to a terminal") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");
  CHECK(printable("a\r\x7f\xff") == "a\\x0d\\x7f\\xff");
}

TEST_CASE("what is text stays text: lines, tabs, any language") {
  CHECK(printable("two\nlines\tand Grüße, 你好 🙂") == "two\nlines\tand Grüße, 你好 🙂");
}

TEST_CASE("a text that is too long is cut, and between characters") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("aüb", 2) == "aü...");
}

TEST_CASE("a word of the shell is quoted where the shell would take it for something else") {
  CHECK(rondo::shell_word("./outputs/run-1") == "./outputs/run-1");
  CHECK(rondo::shell_word("aus gabe") == "'aus gabe'");
  CHECK(rondo::shell_word("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(rondo::shell_word("") == "''");
}
