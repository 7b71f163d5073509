// `rondo report RUN... [--output FILE] [--text]`. The page goes to a file, the text to stdout.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "runs/report_page.h"
#include "runs/report_text.h"
#include "support/files/atomic_file.h"
#include "support/flags/flags.h"
#include "support/flags/terminal.h"
#include "support/watch/still_working.h"

namespace rondo {

int run_report(const Arguments& args) {
  std::vector<std::string> folders;
  std::filesystem::path output = "report.html";
  bool text = false;
  Flags flags("report",
              "Writes an HTML page with curves of losses, gradient norms, learning rates, throughput, memory "
              "and\nexpert load, events and environment, of one run or several. The page needs no network.",
              "Exit code: 0 done, 2 usage, 4 a run folder is missing or damaged, 9 the disk is full.");
  flags.positional("RUN...", flag::append(&folders),
                   "run folders, also of runs that still train; other paths are left out with a warning",
                   Need::required);
  flags.value("--output", "FILE", flag::text(&output), "page to write (default report.html)");
  flags.toggle("--text", &text, "print plots in the terminal instead of writing a page");
  if (!flags.read(args)) return 0;
  std::vector<RunRecord> runs;
  for (const std::filesystem::path& folder : run_folders(folders, 1)) {
    const StillWorking working("reading " + folder.string(), /*json=*/false);
    runs.push_back(read_record(folder));
  }
  if (text) {
    const Terminal terminal = stdout_terminal();
    std::fputs(report_text(runs, terminal.columns, terminal.color).c_str(), stdout);
    return 0;
  }
  replace_file(output, report_page(runs), FileUse::output);
  fmt::print("{}\n", output.string());
  return 0;
}

}  // namespace rondo
