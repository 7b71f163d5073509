// `rondo top RUN [--every SECONDS]`. Each update reads only new lines and redraws the screen.
#include <chrono>
#include <cstdio>
#include <thread>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "runs/follow_run.h"
#include "runs/live_view.h"
#include "support/flags/flags.h"

namespace rondo {

int run_top(const Arguments& args) {
  std::string folder;
  double every_s = 1;
  Flags flags("top",
              "Shows a run while it trains: step, loss, speed, memory, time left and the latest events. "
              "Ends\nwith the run. Without a terminal it prints the current state once.",
              "Exit code: 0 the run ended for any reason, 2 usage, 4 the run folder is missing or damaged.");
  flags.positional("RUN", flag::text(&folder), "the folder of a run", Need::required);
  flags.value("--every", "SECONDS", flag::number(&every_s, 0.1, 3600, "seconds"),
              "seconds between updates (default 1)");
  if (!flags.read(args)) return 0;
  RunFollower follower(folder);
  while (true) {
    const RunRecord& run = follower.look();
    const Terminal terminal = stdout_terminal();
    const bool ended = follower.has_ended();
    const std::string view = live_view(run, terminal.columns, terminal.color);
    std::fputs(((terminal.is_one ? "\033[H\033[J" : "") + view).c_str(), stdout);
    if (ended && run.exit.is_null()) std::fputs("the process of rank 0 ended without an exit.json\n", stdout);
    std::fflush(stdout);
    if (!terminal.is_one || ended) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
  }
}

}  // namespace rondo
