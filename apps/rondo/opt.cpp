// `rondo opt`: runs passes on the text of a graph.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "apps/commands.h"
#include "compiler/passes/pipeline.h"
#include "compiler/plan/memory_plan.h"
#include "compiler/plan/report/memory_report.h"
#include "compiler/plan/report/memory_timeline.h"
#include "compiler/text/text.h"
#include "compiler/verify/verify.h"
#include "support/error.h"
#include "support/files/atomic_file.h"
#include "support/flags/flags.h"

namespace rondo {
namespace {

std::string read_all(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path);
  const bool empty = file && file.peek() == std::ifstream::traits_type::eof() && !file.bad();
  if (empty) return "";
  if (!file || !(text << file.rdbuf()))
    throw Error(ExitCode::usage, "opt: cannot read " + path + ": " + std::strerror(errno) +
                                     "; give the path of a graph's text, or - for standard input");
  return text.str();
}

void print_list() {
  for (const ir::PassInfo& pass : ir::all_passes()) {
    std::cout << fmt::format("{:<24} {:<7} {:<9} {}{}\n", pass.name, name_of(pass.numerics),
                             pass.in_default ? "default" : "optional", pass.does,
                             pass.only_on ? fmt::format(" (needs device {})", name_of(*pass.only_on)) : "");
  }
}

void print_report(const ir::PipelineReport& report) {
  for (const std::string& note : report.notes) std::fprintf(stderr, "rondo: note: %s\n", note.c_str());
  for (const ir::PassReport& pass : report.passes) {
    std::fprintf(stderr, "%-24s %6zu -> %6zu nodes  %8.2f ms, verify %.2f ms", std::string(pass.name).c_str(),
                 pass.nodes_before, pass.nodes_after, pass.ms, pass.verify_ms);
    for (const auto& [op, change] : pass.op_difference) std::fprintf(stderr, "  %+d %s", change, op.c_str());
    std::fputc('\n', stderr);
    for (const std::string& note : pass.notes) std::fprintf(stderr, "  %s\n", note.c_str());
  }
}

// Plans the memory of the graph. Prints the summary if `lines`, and writes the picture to
// `timeline` unless that is empty.
void show_memory(const ir::Graph& graph, TargetDevice device, bool lines, const std::string& timeline) {
  const ir::MemoryReport report = ir::report_memory(graph, ir::plan_memory(graph, ir::memory_needs(device)));
  if (lines)
    for (const std::string& line : ir::print_lines(report)) std::cout << line << "\n";
  if (!timeline.empty()) replace_file(timeline, ir::memory_timeline(graph, report), FileUse::output);
}

}  // namespace

int run_opt(const Arguments& args) {
  CompileOptions options;
  std::string path, timeline;
  bool list = false, verify_only = false, print_after_all = false, memory = false, quiet = false;
  Flags flags("opt", "Runs passes on the text of a graph and prints the result; the report goes to stderr.");
  flags.positional("FILE", flag::text(&path), "text of the graph; - for standard input", Need::optional);
  flags.value("--passes", "A,B", flag::list(&options.passes),
              "names of passes; \"default\" is the default list");
  flags.value("--disable-passes", "A,B", flag::list(&options.disable_passes), "names of passes to skip");
  const auto named = [&](const char* flag, const char* option, const char* meaning) {
    const ReadValue set = [&options, option](const std::string& value) -> std::string {
      options.set(option, value);
      return "";
    };
    flags.value(flag, "NAME", set, meaning);
  };
  named("--device", "device", "target device of the graph: cpu or cuda");
  named("--numerics", "numerics", "exact or rounds");
  named("--memory-policy", "memory_policy", "memory policy, as compile.memory_policy");
  named("--reshard", "reshard_after_forward", "default, always or never");
  flags.toggle("--print-after-all", &print_after_all, "print the graph after each pass");
  flags.toggle("--verify-only", &verify_only, "check the graph and print nothing");
  flags.toggle("--list", &list, "list the passes");
  flags.toggle("--memory", &memory, "print the memory plan of the result instead of the result");
  flags.value("--timeline", "FILE", flag::text(&timeline), "write a picture of that memory as an HTML page");
  flags.toggle("--quiet", &quiet, "no report");
  if (!flags.read(args)) return 0;
  if (list) return print_list(), 0;
  if (path.empty()) flags.fail({"FILE is missing"});

  ir::Graph graph = ir::parse(read_all(path), path == "-" ? "<stdin>" : path);
  ir::verify(graph, "parse");
  if (verify_only) return 0;
  const auto dump = [&](std::string_view pass, const ir::Graph& after) {
    if (print_after_all) std::cout << "# after " << pass << "\n" << ir::print(after) << "\n";
  };
  const ir::PipelineReport report = ir::run_pipeline(graph, options, dump);
  if (memory || !timeline.empty()) {
    show_memory(graph, options.device, memory, timeline);
  } else if (!print_after_all) {
    std::cout << ir::print(graph);
  }
  std::cout.flush();
  if (!quiet) print_report(report);
  return 0;
}

}  // namespace rondo
