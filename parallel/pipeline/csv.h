// Programs as CSV in the format of torch.distributed.pipelining. A row is a rank and a column
// a time step. A cell is empty, the text of an action (action.h), or a pair that runs
// together: "(0F3;1B2)OVERLAP_F_B".
//
// A program is the order of its actions, so empty cells only align columns. to_csv writes one
// where a rank would wait if every action took one time step. A program with messages gets no
// empty cells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

inline constexpr std::int64_t kLargestCsv = std::int64_t{1} << 30;  // bytes

// Parses a program. `place` is the file's name for errors. Throws Error(config), as in
//   schedule.csv: row 2, column 3: "0X1" must be a stage, a type and a microbatch, ...
Program read_csv(std::string_view text, const std::string& place);

// Writes a program. REQUIRES: check() passed.
std::string to_csv(const Program& program);

}  // namespace rondo::pipeline
