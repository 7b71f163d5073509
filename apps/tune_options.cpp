#include "apps/worker_options.h"
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
      "Measures on this machine's GPU the fastest cuBLASLt algorithm of each matrix product of a "
      "job's\nstep. Runs with compile.matmul_algorithms = FILE use them. --section.key=value sets a key of "
      "the\nconfiguration, as for `rondo train`.",
      "One GPU is enough for any number of ranks, since products are measured one by one. Algorithms\nwith "
      "results that vary between runs are excluded. docs/cuda.md has details.\n\nExit code: 0 written; 2 "
      "usage, 3 configuration, 6 no GPU, 9 the file cannot be written, 10 the step cannot\nbe recorded.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--world", "N", flag::amount(&options.world, 1, kMaxRanks), "ranks of the job (default 1)");
  flags.value("--out", "FILE", flag::text(&options.out), "the file (default matmul_algorithms.json)");
  if (!flags.read(args)) return std::nullopt;
  keys.emplace_back("--compile.matmul_algorithms=");  // the keys that are being measured
  keys.emplace_back("--job.device=cuda");
  options.config = load_config(keys, TargetDevice::cuda);
  const Compile& compile = options.config.compile;
  if (!compile.enable || compile.numerics != Numerics::rounds)
    throw Error(ExitCode::config,
                "tune: measured algorithms need a recorded step and numerics that round; set compile.enable "
                "= true and compile.numerics = \"rounds\", as in the runs that will read the file");
  resolve_layout(options.config, options.world);
  return options;
}

}  // namespace rondo
