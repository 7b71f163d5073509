// Continues files with one JSON object with a "step" per line over all starts of a run.
#pragma once

#include <cstdint>

#include "support/files/append_file.h"

namespace rondo {

struct EarlierSteps {
  std::int64_t last_kept = 0;  // 0: no line is kept
  std::int64_t last = 0;       // largest step in the file, kept or not
};

// Prepares NAME.jsonl to continue after `step`. Keeps its lines up to `step` while they are
// complete and their steps ascend. Moves the other lines to the end of NAME.superseded.jsonl.
// Throws FileError.
EarlierSteps go_on_after(std::int64_t step, AppendFile& file);

}  // namespace rondo
