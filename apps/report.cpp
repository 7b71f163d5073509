// `rondo report RUN... [--output FILE] [--text]`. The page goes to a file, the text to stdout.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "runs/report_page.h"
#include "runs/report_text.h"
#include "support/files/atomic_file.h"
#include "support/flags/flags.h"

namespace rondo {

int run_report(const Arguments& args) {
  std::vector<std::string> folders;
  std::filesystem::path output = "report.html";
  bool text = false;
  Flags flags("report",
              "Curves of losses, gradient norms, learning rates, throughput and memory, events, environment\n"
              "and the load of experts, of one run or of several side by side. The page needs no network.",
              "Exit code: 0 done, 2 usage, 4 a run folder is missing or damaged, 9 the disk is full.");
  flags.positional("RUN...", flag::append(&folders), "folders of runs; they may still train", Need::required);
  flags.value("--output", "FILE", flag::text(&output), "the page (default report.html)");
  flags.toggle("--text", &text, "plots in the terminal instead of a page");
  if (!flags.read(args)) return 0;
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) runs.push_back(read_record(folder));
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
