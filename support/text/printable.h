// Texts of others (files, peers, keys) before they are shown: a terminal must not take orders from them.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace rondo {

// Control characters but line feed and tab, and bytes that are no UTF-8, as \x1b; what is longer than `most`
// bytes is cut there and ends with "...".
std::string printable(std::string_view text, std::size_t most = std::numeric_limits<std::size_t>::max());

// Shows a text that comes in pieces as `printable` shows the whole.
class PrintablePieces {
 public:
  // Shows the text so far, but for the beginning of a character at its end, which waits for the next piece.
  std::string add(std::string_view piece);
  // Shows the bytes that wait, which are no UTF-8.
  std::string end();

 private:
  std::string beginning_;  // of a character: at most three bytes
};

// As a word of a shell's command line: in single quotes where it needs them.
std::string shell_word(std::string_view text);

}  // namespace rondo
