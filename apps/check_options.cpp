// Without --world the step is traced for few ranks, at least two if a degree is -1: the graph of one
// rank has no sharding that a rule could refuse.
#include "apps/check_options.h"

#include <cstdio>

#include "apps/plan_options.h"
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
  constexpr std::int64_t kMostTimes = 1024;
  const Parallelism& p = config.parallelism;
  std::int64_t known = 1;
  bool is_open = false;
  for (const std::int64_t degree :
       {p.pipeline_parallel_degree, p.data_parallel_replicate_degree, p.data_parallel_shard_degree,
        p.context_parallel_degree, p.tensor_parallel_degree}) {
    known *= degree > 0 ? degree : 1;
    is_open |= degree < 0;
  }
  for (std::int64_t times = 2; is_open && times <= kMostTimes; ++times) {
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
  Flags flags(
      "config check",
      "Would `rondo train` start with it, here? Asks all rules between keys, and traces the step as\n"
      "`rondo plan` does, for what only its graph knows.",
      "`rondo help` lists sections and keys.\n\n"
      "Exit code: 0 yes, 3 no, 6 not on this machine; 10 a fault of Rondo, whose graph breaks a rule.");
  flags.positional("CONFIG ...", flag::append(&keys), "TOML files; of two values the later one counts",
                   Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&world, 1, kMostRanks),
              "ranks of the job that is traced (default: few, as the degrees allow)");
  flags.toggle("--no-trace", &no_trace, "asks the keys alone, in milliseconds and without LibTorch");
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
