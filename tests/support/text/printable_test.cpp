#include "support/text/printable.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using rondo::printable;
using rondo::PrintablePieces;

TEST_CASE("SEC-10: a shown text gives no orders to a terminal") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");
  CHECK(printable("a\r\x7f\xff") == "a\\x0d\\x7f\\xff");
}

TEST_CASE("what is text stays text: lines, tabs, any language") {
  CHECK(printable("two\nlines\tand Grüße, 你好 🙂") == "two\nlines\tand Grüße, 你好 🙂");
}

TEST_CASE("a text that comes in pieces is shown as the whole is, wherever it is cut") {
  const std::string text =
      "a\x1b[31m\r\tü\n你\xe4\xbd🙂\xf0\x9f\x99\xc2\x9b\xff"
      "2J\xed\xa0\x80\xe2\x82\xac\xf0";
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      PrintablePieces pieces;
      std::string all = pieces.add(text.substr(0, first));
      all += pieces.add(text.substr(first, second - first));
      all += pieces.add(text.substr(second));
      CHECK(all + pieces.end() == printable(text));
    }
  PrintablePieces bytes;
  std::string all;
  for (const char byte : text) all += bytes.add(std::string(1, byte));
  CHECK(all + bytes.end() == printable(text));
}

TEST_CASE("what may still become a character waits, and nothing else does") {
  PrintablePieces pieces;
  CHECK(pieces.add("\x1b[") == "\\x1b[");
  CHECK(pieces.add("\xf0\x9f").empty());
  CHECK(pieces.add("\x99\x82!") == "🙂!");
  CHECK(pieces.add("\xff\xc2") == "\\xff");
  CHECK(pieces.add("\x9b") == "\\xc2\\x9b");
  CHECK(pieces.add("\xe2\x82").empty());
  CHECK(pieces.end() == "\\xe2\\x82");
  CHECK(pieces.end().empty());
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
