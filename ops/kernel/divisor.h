// Division by a number that is known before a kernel is launched: a multiplication and a shift. A
// GPU divides integers in software, 64-bit ones by a call. Source: Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994.
#pragma once

#include <cstdint>

#include "ops/kernel/device.h"

namespace rondo::cuda {

class Divisor {
 public:
  // REQUIRES: 0 < divisor < 2^31.
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - divisor_;
    multiplier_ = static_cast<std::uint32_t>((excess << 32) / divisor_ + 1);
  }

  struct Division {
    std::uint32_t quotient, remainder;
  };
  // REQUIRES: number < 2^31.
  RONDO_DEVICE Division divide(std::uint32_t number) const {
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(number) * multiplier_) >> 32);
    const std::uint32_t quotient = (high + number) >> shift_;
    return {quotient, number - quotient * divisor_};
  }

 private:
  std::uint32_t divisor_, multiplier_ = 0, shift_ = 0;
};

}  // namespace rondo::cuda
