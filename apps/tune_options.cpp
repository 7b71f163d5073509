#include "apps/tune_options.h"

#include "apps/plan_options.h"
#include "config/derived/layout.h"
#include "config/load.h"
#include "support/error.h"
#include "support/flags/flags.h"

namespace rondo {

std::optional<TuneOptions> read_tune_options(const std::vector<std::string>& args) {
  TuneOptions options;
  std::vector<std::string> keys;
  Flags flags(
      "tune",
      "Measures on this machine's GPU by which algorithm of cuBLASLt each matrix product of a job's step "
      "is\ncomputed fastest. Runs with compile.matmul_algorithms = FILE take them. --section.key=value "
      "sets a key\nof the configuration, as for `rondo train`.",
      "One GPU is enough, whatever the job's ranks: products are measured one by one. Algorithms whose "
      "results vary\nfrom run to run are left out. docs/cuda.md tells more.\n\n"
      "Exit code: 0 written; 2 usage, 3 configuration, 6 no GPU, 9 the file cannot be written, 10 the "
      "step cannot\nbe recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&options.world, 1, kMostRanks), "ranks of the job (default 1)");
  flags.value("--out", "FILE", flag::text(&options.out), "the file (default matmul_algorithms.json)");
  if (!flags.read(args)) return std::nullopt;
  keys.emplace_back("--compile.matmul_algorithms=");  // what is measured now
  keys.emplace_back("--job.device=cuda");
  options.config = load_config(keys, TargetDevice::cuda);
  const Compile& compile = options.config.compile;
  if (!compile.enable || compile.numerics != Numerics::rounds)
    throw Error(ExitCode::config,
                "tune: steps with measured algorithms are recorded and round; set compile.enable = true and "
                "compile.numerics = \"rounds\", as in the runs that will read the file");
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
