// Without --world the step is traced for few ranks, at least two if a degree is -1: the graph of
// one rank has no sharding that a rule could refuse.
#include <cstdio>

#include "apps/worker_options.h"
#include "config/derived/layout.h"
#include "config/dump.h"
#include "config/load.h"
#include "support/error.h"
#include "support/flags/flags.h"

namespace rondo {
namespace {

// Returns the fewest ranks that the degrees allow, and at least two if a degree is -1. Throws what
// resolve_layout throws if no number of ranks fits.
std::int64_t few_ranks(const JobConfig& config) {
  constexpr std::int64_t kMaxTimes = 1024;
  std::int64_t known = 1;
  bool is_open = false;
  for (const DegreeOfAxis& of : kDegreesOfDense) {
    const std::int64_t degree = config.parallelism.*of.degree;
    known *= degree > 0 ? degree : 1;
    is_open |= degree < 0;
  }
  for (std::int64_t times = 2; is_open && times <= kMaxTimes; ++times) {
    try {
      resolve_layout(config, known * times);
      return known * times;
    } catch (const Error&) {
      continue;  // experts or sequences may need more ranks
    }
  }
  resolve_layout(config, known);
  return known;
}

}  // namespace

std::optional<CheckOptions> read_check_options(const std::vector<std::string>& args) {
  CheckOptions options;
  std::vector<std::string> keys;
  std::int64_t world = 0;
  bool no_trace = false;
  Flags flags("config check",
              "Checks whether `rondo train` would start with a configuration on this machine: checks the "
              "rules\nbetween keys and traces the step as `rondo plan` does, for rules that only the graph "
              "can check.",
              "`rondo help` lists sections and keys.\n\nExit code: 0 valid, 3 invalid, 6 not on this "
              "machine, 10 a bug in Rondo: the graph breaks a rule.");
  flags.positional("CONFIG ...", flag::append(&keys), "TOML files; later values override earlier ones",
                   Need::required);
  flags.keys(&keys);
  flags.value(
      "--world", "N", flag::amount(&world, 1, kMaxRanks),
      "ranks of the traced job (default: the fewest that the degrees allow, 2 or more with a degree of -1)");
  flags.toggle("--no-trace", &no_trace, "check only the keys, in milliseconds and without LibTorch");
  if (!flags.read(args)) return std::nullopt;
  options.config = load_config_to_run(keys);
  options.world = world > 0 ? world : few_ranks(options.config);
  resolve_layout(options.config, options.world);
  options.traces = options.config.compile.enable && !no_trace;
  return options;
}

void print_valid(const JobConfig& config) {
  for (const std::string& note : config.notes) std::printf("note: %s\n", note.c_str());
  const std::string& file = config.job.config_file;
  std::printf("%s: valid, fingerprint %s\n", file.empty() ? "defaults and flags" : file.c_str(),
              fingerprint(config).c_str());
}

}  // namespace rondo
