#include "support/printable.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

using rondo::printable;
using rondo::PrintablePieces;

TEST_CASE("printable text has no control sequences for a terminal") {
  CHECK(printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J");
  CHECK(printable("a\r\x7f\xff") == "a\\x0d\\x7f\\xff");
  CHECK(printable("a\u202eb\u2066") == "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6");  // these reverse what follows
}

TEST_CASE("lines, tabs and letters of any language are unchanged") {
  CHECK(printable("two\nlines\tand Grüße, 你好 🙂") == "two\nlines\tand Grüße, 你好 🙂");
}

TEST_CASE("a text in pieces is printed like the whole, wherever it is split") {
  const std::string text =
      "a\x1b[31m\r\tü\n你\xe4\xbd🙂\xf0\x9f\x99\xc2\x9b\xff"
      "2J\xed\xa0\x80\xe2\x82\xac\xf0";
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      PrintablePieces pieces;
      std::string printed = pieces.add(text.substr(0, first));
      printed += pieces.add(text.substr(first, second - first));
      printed += pieces.add(text.substr(second));
      CHECK(printed + pieces.end() == printable(text));
    }
  PrintablePieces bytes;
  std::string printed;
  for (const char byte : text) printed += bytes.add(std::string(1, byte));
  CHECK(printed + bytes.end() == printable(text));
}

TEST_CASE("only an unfinished character waits for the next piece") {
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

TEST_CASE("a text that is too long is cut between characters") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("aüb", 2) == "aü...");
}

TEST_CASE("a word with special characters of the shell is quoted") {
  CHECK(rondo::shell_word("./outputs/run-1") == "./outputs/run-1");
  CHECK(rondo::shell_word("aus gabe") == "'aus gabe'");
  CHECK(rondo::shell_word("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(rondo::shell_word("") == "''");
}
