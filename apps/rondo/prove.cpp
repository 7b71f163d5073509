// `rondo prove`: runs layouts of ranks and compares each with one rank.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "apps/commands.h"
#include "config/load.h"
#include "prove/playable.h"
#include "prove/proof_job.h"
#include "prove/proof_text.h"
#include "support/error.h"
#include "support/files/temporary_folder.h"
#include "support/flags/flags.h"
#include "support/process_start.h"
#include "support/stopwatch.h"
#include "support/watch/still_working.h"

namespace rondo {
namespace {

constexpr std::int64_t kUsualRanks = 8;  // default of --ranks

struct ProveOptions {
  JobConfig job;  // small job of the proof (prove/proof_job.h)
  std::vector<ProofCase> cases;
  std::string keep;  // folder that keeps the runs; "": a temporary one
  bool json = false;
};

// A temporary folder, deleted with this object.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_ = make_temporary_folder("rondo-prove");
};

// The quickest first.
void sort_by_ranks(std::vector<ProofCase>& cases) {
  std::stable_sort(cases.begin(), cases.end(),
                   [](const ProofCase& a, const ProofCase& b) { return a.ranks() < b.ranks(); });
}

std::optional<ProveOptions> read_options(const Arguments& args) {
  ProveOptions options;
  Arguments keys, layouts;
  std::int64_t world = 0, ranks = kUsualRanks, count = 0, seed = 1;
  bool all = false;
  Flags flags("prove",
              "Proves by execution that layouts of ranks train as one rank does: runs three steps of each "
              "in\nfloat64, with a small model of the same parts. --section.key=value sets a key of "
              "the\nconfiguration, as for `rondo train`.",
              "A layout is like dp_replicate=2,dp_shard=2,tp=2,ep=4,accumulate=2, with keys of the "
              "configuration\nsuch as compile.memory_policy=full; A/B saves in A and resumes in B. Without "
              "--layout and --world\nproves all layouts of up to --ranks ranks. docs/proof.md has the "
              "details.\n\nExit code: 0 all equal one rank, 8 one differs, 2 usage, 3 configuration, or a "
              "rule refuses a\nlayout; else the exit code of a run that could not be compared.");
  flags.positional("CONFIG ...", flag::append(&keys), "the configuration, TOML files", Need::required);
  flags.keys(&keys);
  flags.value("--layout", "LAYOUT", flag::append(&layouts), "prove this layout; may be repeated");
  flags.value("--world", "N", flag::amount(&world, 1),
              "prove the job's own layout on N ranks, with degrees above 3 reduced to 2 or 3");
  flags.value("--ranks", "N", flag::whole(&ranks, 1, 64), "maximum ranks of a layout (default 8)");
  flags.toggle("--all", &all,
               "prove all layouts, and with some of them every option that must not change numbers");
  flags.value("--fuzz", "N", flag::amount(&count, 1), "prove N random layouts and options");
  flags.value("--seed", "S", flag::whole(&seed, 0), "seed of --fuzz (default 1)");
  flags.value("--keep", "DIR", flag::text(&options.keep),
              "keep the runs that differ, and the runs of one rank");
  flags.toggle("--json", &options.json, "print JSON");
  if (!flags.read(args)) return std::nullopt;
  if (!options.keep.empty() && std::filesystem::exists(options.keep) &&
      !std::filesystem::is_empty(options.keep))
    flags.fail({flags.as_given("--keep") + " must be an empty or new folder"});
  keys.emplace_back("--compile.matmul_algorithms=");  // for GPUs only; proofs run in float64
  const JobConfig job = load_config(keys, TargetDevice::cpu);
  options.job = proof_job(job);
  for (const std::string& text : layouts) {
    options.cases.emplace_back();
    if (const std::string wrong = read_case(text, options.cases.back()); !wrong.empty())
      flags.fail({fmt::format("--layout \"{}\" {}", text, wrong)});
    for (const ProofLayout& layout : options.cases.back().layouts)
      if (!has_layout(options.job, layout))
        flags.fail(
            {fmt::format("--layout \"{}\": the small model supports tp degrees, and ep degrees if it has "
                         "experts, of 1, 2, 3, 4, 6 or 8",
                         text)});
  }
  if (world > 0) options.cases.push_back({{shrunk_layout(resolve_layout(job, world))}});
  for (ProofCase& named : options.cases) make_playable(options.job, named);
  const auto add = [&](const std::vector<ProofCase>& more) {
    options.cases.insert(options.cases.end(), more.begin(), more.end());
  };
  if (count > 0) add(random_cases(options.job, ranks, count, static_cast<std::uint64_t>(seed)));
  if (all) add(all_cases(options.job, ranks));
  if (options.cases.empty()) add(all_layouts(options.job, ranks));
  sort_by_ranks(options.cases);
  return options;
}

// Returns "[3/12] tp=2,ep=4, 40 s left", for the layout after `done` of them.
std::string progress_text(std::size_t done, const std::vector<ProofCase>& cases, double seconds) {
  const auto of = static_cast<double>(done);
  const double left = seconds / std::max(of, 1.0) * (static_cast<double>(cases.size()) - of);
  return fmt::format("[{}/{}] {}{}", done + 1, cases.size(), cases[done].text(),
                     done == 0 ? "" : fmt::format(", {:.0f} s left", left));
}

}  // namespace

int run_prove(const Arguments& args) {
  const auto options = read_options(args);
  if (!options) return 0;
  std::optional<ScratchFolder> scratch;
  const std::string folder = options->keep.empty() ? scratch.emplace().path() : options->keep;
  Prover prover(options->job, folder, (program_folder() / "rondo-worker").string(),
                options->cases.back().ranks());  // they are sorted
  std::vector<Proof> proofs;
  const Stopwatch time;
  if (!options->json) std::fputs(proof_sizes(options->job).c_str(), stdout);
  if (!options->job.model.converters.empty())
    std::fputs(
        "proved without float8; --layout ...,model.converters=float8,... includes it (docs/float8.md)\n",
        stderr);
  if (!options->json) std::fputs(proof_header(options->cases).c_str(), stdout);
  for (const ProofCase& layout : options->cases) {
    std::fflush(stdout);
    {
      const StillWorking working(progress_text(proofs.size(), options->cases, time.seconds()), options->json);
      proofs.push_back(prover.prove(layout));
    }
    if (!options->json) std::fputs(proof_line(options->cases, proofs.back()).c_str(), stdout);
  }
  std::fputs((options->json ? proof_json(proofs) : proof_summary(proofs, time.seconds())).c_str(), stdout);
  const int code = exit_code_of(proofs);
  if (code == static_cast<int>(ExitCode::numerics) && options->keep.empty())
    std::fputs("--keep DIR keeps the runs that differ\n", stderr);
  return code;
}

}  // namespace rondo
