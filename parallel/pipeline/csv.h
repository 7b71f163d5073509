// Programs as CSV, in the form of torch.distributed.pipelining: a row is a rank, a column a time step, a cell
// an action's text (action.h), a pair that runs together, "(0F3;1B2)OVERLAP_F_B", or empty.
//
// Empty cells only align the columns for the reader: a program is the order of its actions. What is written
// has them where a rank waits, if every action took one time step; with messages it has none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallel/pipeline/program.h"

namespace rondo::pipeline {

inline constexpr std::int64_t kLargestCsv = std::int64_t{1} << 30;  // bytes

// `place`: the file's name, for errors. Throws Error(config), as in
//   schedule.csv: row 2, column 3: "0X1" must be a stage, a type and a microbatch, ...
Program read_csv(std::string_view text, const std::string& place);

// REQUIRES: check() passed.
std::string to_csv(const Program& program);

}  // namespace rondo::pipeline
