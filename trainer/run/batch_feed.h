// Reads the batch of the next step. A batch that cannot be read ends the run on all ranks together:
// the error is stored until the ranks have agreed to stop.
#pragma once

#include <optional>

#include "datasets/loader.h"
#include "support/error.h"
#include "trainer/run/run.h"

namespace rondo {

class BatchFeed {
 public:
  // `run` must outlive this.
  explicit BatchFeed(Run& run) : run_(run) {}

  // Reads the next training batch. Before the first step it throws errors, since nothing is
  // lost yet.
  void fetch();
  // Returns the labels of this batch, on this rank; 0 with trouble().
  std::int64_t labels() const { return trouble_ ? 0 : batch_.valid_tokens; }
  // Says whether the batch has labels on any rank. Without them the losses of the step add up to 0;
  // its divisor becomes 1 on each rank, so that loss and gradients are 0, too.
  void expect_labels(bool any) {
    if (!any) batch_.valid_tokens = 1;
  }
  // Returns the batch that `fetch` read. REQUIRES: no trouble().
  StepBatch take() { return std::move(batch_); }
  double wait_s() const { return wait_s_; }  // duration of `fetch`
  // Reads a batch of `data`. Returns nullopt if it cannot be read, and sets trouble().
  std::optional<StepBatch> read(DataLoader& data);
  // Returns the error because of which this rank has no batch.
  const std::optional<Error>& trouble() const { return trouble_; }

 private:
  Run& run_;
  StepBatch batch_;
  double wait_s_ = 0;
  std::optional<Error> trouble_;
};

}  // namespace rondo
