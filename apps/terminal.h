// Properties of stdout, for commands that draw.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace rondo {

struct Terminal {
  bool is_one = false;
  int columns = 100;   // from 24 to 160
  bool color = false;  // false if NO_COLOR is set
};

inline Terminal stdout_terminal() {
  Terminal terminal;
  terminal.is_one = isatty(STDOUT_FILENO) != 0;
  if (!terminal.is_one) return terminal;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = std::clamp<int>(size.ws_col, 24, 160);
  terminal.color = std::getenv("NO_COLOR") == nullptr;
  return terminal;
}

}  // namespace rondo
