// `fuzz`: attacks the parsers of the program with mutated inputs, and ends with 1 where one broke.
// An input follows from seed and number, so that `fuzz --parser P --seed S --first NUMBER --runs 1`
// reads it again.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "support/flags/flags.h"
#include "tests/attack/fuzz/campaign.h"

// Settings of the sanitizers, where the program is built with them: little memory for what was
// freed, so that what is measured is the parser's; an end at the first thing found; and nothing
// else that takes time, since a million inputs are many. One input again, with
// ASAN_OPTIONS=malloc_context_size=30, tells more.
extern "C" {
const char* __asan_default_options();
const char* __asan_default_options() {
  return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:max_allocation_size_mb=512:handle_abort=1:"
         "malloc_context_size=2:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1:"
         "detect_stack_use_after_return=0";
}
const char* __ubsan_default_options();
const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }
}

namespace {

using namespace rondo;

int run(const std::vector<std::string>& args) {
  attack::Campaign campaign{.findings = "fuzz_findings"};
  std::vector<std::string> names;
  std::int64_t runs = 1000, first = 0, seed = 1;
  Flags flags("fuzz", "Attacks parsers with mutated inputs.", "Exit code: 0 all held, 1 one broke, 2 usage.");
  flags.value("--parser", "A,B", flag::list(&names), "which ones (default: all)");
  flags.value("--runs", "N", flag::amount(&runs, 1),
              "inputs of each; of a costly one a fraction (default 1000)");
  flags.value("--seed", "S", flag::amount(&seed, 0), "other inputs (default 1)");
  flags.value("--first", "N", flag::amount(&first, 0), "number of the first input (default 0)");
  flags.value("--findings", "FOLDER", flag::text(&campaign.findings),
              "what broke a parser (default fuzz_findings)");
  if (!flags.read(args)) return 0;
  campaign.runs = static_cast<std::uint64_t>(runs);
  campaign.first = static_cast<std::uint64_t>(first);
  campaign.seed = static_cast<std::uint64_t>(seed);
  campaign.findings = std::filesystem::absolute(campaign.findings);
  for (const std::string& name : names)
    if (std::none_of(attack::parsers().begin(), attack::parsers().end(),
                     [&](const auto& p) { return p.name == name; }))
      flags.fail({"there is no parser " + name});
  std::filesystem::current_path(RONDO_SOURCE_DIR);
  fmt::print("{:<16} {:>9} {:>9} {:>8} {:>10} {:>10} {:>9}\n", "parser", "inputs", "accepted", "s",
             "worst ms", "at input", "MiB");
  bool held = true;
  for (const attack::Parser& parser : attack::parsers()) {
    if (!names.empty() && std::find(names.begin(), names.end(), parser.name) == names.end()) continue;
    const attack::Result result = attack::attack(parser, campaign);
    fmt::print("{:<16} {:>9} {:>9} {:>8.1f} {:>10.1f} {:>10} {:>9.1f}{}\n", parser.name, result.inputs,
               result.accepted, result.seconds, result.worst_ms, result.worst_input,
               static_cast<double>(result.worst_bytes) / (1 << 20), result.gave_up ? "  gave up" : "");
    for (const auto& [what, times] : result.findings) fmt::print("  {} times: {}\n", times, what);
    std::fflush(stdout);
    held = held && result.findings.empty();
  }
  if (!held) fmt::print("inputs that broke a parser are in {}\n", campaign.findings.string());
  return held ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const rondo::Error& error) {
    fmt::print(stderr, "fuzz: error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
