// Properties of stdout, and pages of help that fit it.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

struct Terminal {
  bool is_one = false;
  int columns = 100;   // from 24 to 160
  bool color = false;  // false if NO_COLOR is set
};

Terminal stdout_terminal();

// Returns the text with lines of at most `columns` bytes, broken at blanks. The rest of a row of a
// table stays in the column of its last cell. Words that are longer than a line are kept whole.
std::string wrapped(std::string_view text, std::size_t columns);

// Prints a page of help to stdout, wrapped where that is a terminal.
void print_page(const std::string& text);

}  // namespace rondo
