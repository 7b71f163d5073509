// Proves by execution that layouts equal one rank. Each layout is run by real ranks that rendezvous
// and train. The result is compared with the run of one rank, eager and without microbatches, on
// the same global batches. No LibTorch here: the ranks are processes of rondo-worker. docs/proof.md
// says what this proves.
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

// How a run ended: its exit code, and the reason if it is not 0. A hang counts as 7.
struct RunEnd {
  int code = 0;
  std::string reason = {};
};

struct Proof {
  ProofCase layout;
  Differences differences;  // empty if the run failed
  RunEnd end = {};          // end of the run of the layout
  double seconds = 0;
  bool ran() const { return end.code == 0; }
  bool holds() const { return ran() && differences.findings.empty(); }
  // Returns whether a rule of the configuration forbids the layout, so that its numbers
  // are unknown.
  bool is_refused() const { return end.code == static_cast<int>(ExitCode::config); }
};

// Returns the exit code of `rondo prove`: 0 if all proofs hold; 8 if one differs from one rank;
// otherwise the exit code of the first run that failed for another reason than a rule; otherwise 3,
// if a rule refused one.
int exit_code_of(const std::vector<Proof>& proofs);

class Prover {
 public:
  // `job`: from proof_job(). `folder`: for runs, corpus and configuration. `worker`: the path of
  // rondo-worker. `max_ranks`: of all layouts.
  Prover(JobConfig job, std::filesystem::path folder, std::string worker, std::int64_t max_ranks);

  // Runs a layout and compares it. Throws Error(internal) if the run of one rank fails without a
  // rule that forbids it.
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
  const int max_ranks_;
  std::string config_file_;
  std::map<std::string, OneRank> one_rank_;  // by the settings that it shares with layouts
  std::optional<launch::RankPool> pool_;     // none before the first run and after one that failed
  int runs_ = 0;
};

}  // namespace rondo
