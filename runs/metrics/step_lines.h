// Files that have one JSON object with a "step" a line, over all the starts of a run.
#pragma once

#include <cstdint>

#include "support/files/append_file.h"

namespace rondo {

struct EarlierSteps {
  std::int64_t last_kept = 0;  // 0: none
  std::int64_t last = 0;       // that the file had, kept or not
};

// Lets NAME.jsonl go on behind `step`: it keeps its lines up to there, as far as they are whole and their
// steps rise; the others move to the end of NAME.superseded.jsonl. Throws FileError.
EarlierSteps go_on_after(std::int64_t step, AppendFile& file);

}  // namespace rondo
