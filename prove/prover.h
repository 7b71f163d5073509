// A proof by execution that layouts equal one rank: each is played as real ranks that meet and train, and its
// run is compared with that of one rank, eager and without microbatches, on the same global batches. No
// LibTorch here; the ranks are processes of rondo-worker. docs/proof.md says what this proves.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_pool.h"
#include "prove/differences.h"
#include "prove/proof_layout.h"
#include "support/error.h"

namespace rondo {

// How a run ended: with exit code 0, or with another one and a reason. A hang counts as 7.
struct RunEnd {
  int code = 0;
  std::string reason = {};
};

struct Proof {
  ProofCase layout;
  Differences differences;  // nothing where the run failed
  RunEnd end = {};          // of the run of the layout
  double seconds = 0;
  bool ran() const { return end.code == 0; }
  bool holds() const { return ran() && differences.findings.empty(); }
  // A rule of the configuration forbids it, so that nothing is said of its numbers.
  bool is_refused() const { return end.code == static_cast<int>(ExitCode::config); }
};

// Returns what `rondo prove` ends with: 0 all hold; 8 one differs from one rank; else how the first ended
// that did not run for another reason than a rule; else 3, where a rule refused one.
int exit_code_of(const std::vector<Proof>& proofs);

class Prover {
 public:
  // `job`: of a proof (proof_job.h). `folder`: takes runs, corpus and configuration. `worker`: the path of
  // rondo-worker.
  Prover(JobConfig job, std::filesystem::path folder, std::string worker);

  // Throws Error(internal) where one rank does not end well and no rule forbids it: no matter of layouts.
  Proof prove(const ProofCase& layout);

 private:
  struct OneRank {
    std::filesystem::path run;
    RunEnd end;
  };

  RunEnd play(std::int64_t ranks, const std::filesystem::path& run, std::vector<std::string> flags);
  RunEnd play_case(const ProofCase& layout, const std::filesystem::path& run);
  const OneRank& one_rank(const ProofCase& layout);
  Compared compared_with(const ProofCase& layout) const;

  const JobConfig job_;
  const std::filesystem::path folder_;
  const std::string worker_;
  std::string config_file_;
  std::map<std::string, OneRank> one_rank_;  // by the settings that layouts share with it
  std::optional<std::pair<std::int64_t, launch::RankPool>> pool_;  // of so many ranks
  int runs_ = 0;
};

}  // namespace rondo
