#include "launch/crash_loop.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo::launch {

std::string CrashLoop::add(const Failure& failure) {
  constexpr int kMaxFruitless = 3;
  if (failure.step < 0) return "";
  const bool has_saved = failure.saved > saved_;
  const bool is_same_step = failure.step > 0 && latest_ == failure.step && !has_saved;
  fruitless_ = has_saved || failure.step > furthest_ ? 0 : fruitless_ + 1;
  latest_ = failure.step;
  furthest_ = std::max(furthest_, failure.step);
  saved_ = std::max(saved_, failure.saved);
  if (is_same_step)
    return fmt::format("it failed twice in step {}, and nothing was saved in between", failure.step);
  if (fruitless_ < kMaxFruitless) return "";
  return fmt::format("{} restarts made no progress beyond step {}, and saved nothing", kMaxFruitless,
                     furthest_);
}

}  // namespace rondo::launch
