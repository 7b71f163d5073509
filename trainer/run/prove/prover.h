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

#include "parallel/launch/rank_pool.h"
#include "trainer/run/prove/differences.h"
#include "trainer/run/prove/proof_layout.h"

namespace rondo {

struct Proof {
  ProofCase layout;
  Differences differences;  // nothing where the run failed
  std::string failure;      // what ended the run of the layout; "": it ended well
  double seconds = 0;
  bool holds() const { return failure.empty() && differences.findings.empty(); }
};

class Prover {
 public:
  // `job`: of a proof (proof_job.h). `folder`: takes runs, corpus and configuration. `worker`: the path of
  // rondo-worker.
  Prover(JobConfig job, std::filesystem::path folder, std::string worker);

  // Throws Error where one rank does not end well, which is no matter of layouts.
  Proof prove(const ProofCase& layout);

 private:
  // "": it ended well.
  std::string play(std::int64_t ranks, const std::filesystem::path& run, std::vector<std::string> flags);
  std::string play_case(const ProofCase& layout, const std::filesystem::path& run);
  const std::filesystem::path& one_rank(const ProofCase& layout);
  Compared compared_with(const ProofCase& layout) const;

  const JobConfig job_;
  const std::filesystem::path folder_;
  const std::string worker_;
  std::string config_file_;
  std::map<std::string, std::filesystem::path> one_rank_;  // runs of one rank, by what they have in common
  std::optional<std::pair<std::int64_t, launch::RankPool>> pool_;  // of so many ranks
  int runs_ = 0;
};

}  // namespace rondo
