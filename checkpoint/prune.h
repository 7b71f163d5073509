// Deletes old checkpoints, but never one that a run may need to resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "checkpoint/catalog.h"
#include "checkpoint/proven.h"

namespace rondo::checkpoint {

struct PrunePlan {
  std::vector<std::filesystem::path> kept;     // full and intact, newest first: a run can resume from these
  std::vector<Skipped> beside;                 // not older than the last kept one; kept in addition
  std::vector<Skipped> damaged;                // not older than the last kept one; kept for inspection
  std::vector<std::filesystem::path> deleted;  // oldest first
  std::vector<std::int64_t> lost_steps;  // steps of deleted checkpoints that a run could have resumed from
};

// Plans to keep the `keep` newest checkpoints that a run can resume from. Everything of earlier
// steps is deleted, and so is the trash of earlier prunes. 0 keeps all. A checkpoint counts towards
// `keep` only if it is proven intact: every byte was hashed, in this call or when this process
// wrote it. The newest is sampled on disk again. Weights alone, damaged checkpoints, and
// checkpoints that a later save of their step replaced do not count. Reads nothing if nothing can
// be deleted. Deletes nothing. Returns soon, with an empty plan, when `stop` is requested.
PrunePlan plan_prune(const std::filesystem::path& root, int keep, Proven& proven,
                     const std::stop_token& stop = {});

// Deletes what the plan lists, each checkpoint in three steps: COMMITTED, durably; the name; the
// contents. So a half deleted checkpoint is never taken for a complete one. When `stop` is
// requested, the current one is the last. REQUIRES: this process has no unfinished save. Throws
// FileError; the next prune deletes the rest.
void carry_out(const std::filesystem::path& root, const PrunePlan& plan, const std::stop_token& stop = {});

}  // namespace rondo::checkpoint
