// The changes that a search tries (search.h), one kind of setting each. Pure functions without
// LibTorch. The sequences of a step stay the same. A variant that breaks a rule is omitted.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/degrees.h"

namespace rondo {

struct Move {
  std::string_view name;
  // Returns the other values of this kind of setting for `way`.
  std::vector<Variant> (*choices)(const Variant& way, const SearchedJob& searched);
  bool is_decisive = false;  // it shows whether a layout is promising
};

// Returns the moves in the order of the search: first those that often make a job fit.
std::span<const Move> moves();

// Returns ways with one other degree: of a pipeline, tensor or context parallelism.
std::vector<Variant> other_layouts(const Variant& way, const SearchedJob& searched);

// Returns `way` with one key after the other set back to the job's value.
std::vector<Variant> with_one_change_less(const Variant& way, const SearchedJob& searched);

}  // namespace rondo
