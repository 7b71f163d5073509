// Deleting old checkpoints, never one that a run may need to go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "checkpoint/catalog.h"
#include "checkpoint/proven.h"

namespace rondo::checkpoint {

struct PrunePlan {
  std::vector<std::filesystem::path> kept;     // full and whole, newest first: what a run can resume from
  std::vector<Skipped> beside;                 // not older than the last kept one; stay, and take no place
  std::vector<Skipped> damaged;                // likewise; left for people to look at
  std::vector<std::filesystem::path> deleted;  // oldest first
  std::vector<std::int64_t> lost_steps;        // of these: steps that the run could have gone back to
};

// Keeps the `keep` newest checkpoints that a run can resume from, and lets go of everything of earlier steps,
// and of the trash of earlier prunes. 0 keeps all. What takes a place has been proven whole: every byte was
// hashed, now or when this process wrote it; the newest is sampled on the disk again. Weights alone, damaged
// ones and those that a later save of their step replaced take none. Where nothing can go, nothing is read.
// Deletes nothing itself. Where `stop` is requested it returns soon, with an empty plan.
PrunePlan plan_prune(const std::filesystem::path& root, int keep, Proven& proven,
                     const std::stop_token& stop = {});

// Deletes what the plan lets go of. A checkpoint goes in three steps: COMMITTED, durably; the name; the
// contents. So one that is half deleted is never taken for a whole one. Where `stop` is requested, the one at
// hand is the last.
// REQUIRES: no save is under way in this process. Throws FileError; what stays is deleted by the next prune.
void carry_out(const std::filesystem::path& root, const PrunePlan& plan, const std::stop_token& stop = {});

}  // namespace rondo::checkpoint
