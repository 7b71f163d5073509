// `rondo top RUN [--every SECONDS]`. Each update reads only new lines and redraws the screen. On a
// terminal it reads keys without waiting for Enter, Ctrl-C too, and leaves the terminal as it was.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "apps/commands.h"
#include "runs/follow_run.h"
#include "runs/live_view.h"
#include "support/flags/flags.h"
#include "support/flags/terminal.h"
#include "support/watch/still_working.h"

namespace rondo {
namespace {

// Reads single keys from the terminal of stdin; does nothing without one.
class Keys {
 public:
  Keys() {
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    is_raw_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~Keys() {
    if (is_raw_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // Waits. Returns true once q or Ctrl-C is typed.
  bool quit_within(double seconds) {
    pollfd keys{.fd = is_raw_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    char key = 0;
    return poll(&keys, 1, static_cast<int>(1e3 * seconds)) > 0 &&
           (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == '\003');
  }

 private:
  termios before_{};
  bool is_raw_ = false;
};

}  // namespace

int run_top(const Arguments& args) {
  std::string folder;
  double every_s = 1;
  Flags flags("top",
              "Shows a run while it trains: step, loss, speed, memory, time left and the latest events. "
              "Ends\nwith the run, or with the key q. Without a terminal it prints the current state once.",
              "Exit code: 0 the run ended for any reason, 2 usage, 4 the run folder is missing or damaged.");
  flags.positional("RUN", flag::text(&folder), "the folder of a run", Need::required);
  flags.value("--every", "SECONDS", flag::number(&every_s, 0.1, 3600, "seconds"),
              "seconds between updates (default 1)");
  if (!flags.read(args)) return 0;
  RunFollower follower(folder);
  {
    const StillWorking working("reading " + folder, /*json=*/false);
    follower.look();  // all lines so far, which may be many
  }
  std::optional<Keys> keys;
  while (true) {
    const RunRecord& run = follower.look();
    const Terminal terminal = stdout_terminal();
    const bool ended = follower.has_ended();
    const std::string view = live_view(run, terminal.columns, terminal.color);
    std::fputs(((terminal.is_one ? "\033[H\033[J" : "") + view).c_str(), stdout);
    if (ended && run.exit.is_null()) std::fputs("the process of rank 0 ended without an exit.json\n", stdout);
    std::fflush(stdout);
    if (!terminal.is_one || ended) return 0;
    if (!keys) keys.emplace();
    if (keys->quit_within(every_s)) return 0;
  }
}

}  // namespace rondo
