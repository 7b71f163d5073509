// Makes untrusted texts (files, peers, keys) safe to print: a terminal must not obey control
// sequences in them.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace rondo {

inline constexpr std::size_t kMaxMessageBytes = 64 << 10;  // of a line of the log, and of an error

// Replaces control characters except line feed and tab, those that reverse text, and bytes that are
// not UTF-8, by escapes such as \x1b. Text beyond `most` bytes is cut and ends with "...".
std::string printable(std::string_view text, std::size_t most = std::numeric_limits<std::size_t>::max());

// Applies `printable` to a text that arrives in pieces.
class PrintablePieces {
 public:
  // Returns the printable text so far. An unfinished character at the end waits for the next piece.
  std::string add(std::string_view piece);
  // Returns the pending bytes, which are not UTF-8, as escapes.
  std::string end();

 private:
  std::string pending_;  // of an unfinished character: at most three bytes
};

// Returns the text as one word of a shell command, in single quotes if necessary.
std::string shell_word(std::string_view text);

}  // namespace rondo
