// The batch of the coming step. A batch that cannot be read ends the run, but on all ranks at once: the error
// is kept until the ranks have agreed to stop.
#pragma once

#include <optional>

#include "datasets/loader.h"
#include "support/error.h"
#include "trainer/run/run.h"

namespace rondo {

class BatchFeed {
 public:
  // `run` outlives this.
  explicit BatchFeed(Run& run) : run_(run) {}

  // Reads the next training batch. Before the first step an error is thrown: nothing is lost yet.
  void fetch();
  // The batch that `fetch` read. REQUIRES: no trouble().
  StepBatch take() { return std::move(batch_); }
  double wait_s() const { return wait_s_; }  // how long `fetch` took
  // Reads a batch of `data`; nullopt where it cannot be read, which is trouble.
  std::optional<StepBatch> read(DataLoader& data);
  // Why this rank has no batch.
  const std::optional<Error>& trouble() const { return trouble_; }

 private:
  Run& run_;
  StepBatch batch_;
  double wait_s_ = 0;
  std::optional<Error> trouble_;
};

}  // namespace rondo
