// The default limit of a search, for the flags, which are read without LibTorch.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr std::int64_t kDefaultSearchPlans = 300;

}  // namespace rondo
