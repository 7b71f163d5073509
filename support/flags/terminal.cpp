#include "support/flags/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace rondo {
namespace {

constexpr std::size_t kNarrowestCell = 24;

// Returns the column where the last cell of a row begins. Cells are two blanks or more apart. A
// line without cells is indented as it begins.
std::size_t last_cell(std::string_view line, std::size_t columns) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", indent);
  if (gap == line.npos) return indent;
  const std::size_t cell = std::min(line.find_first_not_of(' ', gap), line.size());
  return cell + kNarrowestCell <= columns ? cell : indent;
}

}  // namespace

Terminal stdout_terminal() {
  Terminal terminal;
  terminal.is_one = isatty(STDOUT_FILENO) != 0;
  if (!terminal.is_one) return terminal;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = std::clamp<int>(size.ws_col, 24, 160);
  terminal.color = std::getenv("NO_COLOR") == nullptr;
  return terminal;
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    const std::size_t indent = last_cell(line, columns);
    std::size_t before = 0, first = indent;  // columns to the left of `line`; its first word
    while (before + line.size() > columns) {
      std::size_t blank = line.rfind(' ', columns - before);
      if (blank == line.npos || blank <= first) blank = line.find(' ', first + 1);
      if (blank == line.npos) break;
      out.append(line.substr(0, blank)).append("\n").append(indent, ' ');
      line.remove_prefix(blank + 1);
      before = indent, first = 0;
    }
    out += line;
    if (end == text.npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

void print_page(const std::string& text) {
  const Terminal terminal = stdout_terminal();
  const std::string page = terminal.is_one ? wrapped(text, static_cast<std::size_t>(terminal.columns)) : text;
  std::fputs(page.c_str(), stdout);
}

}  // namespace rondo
