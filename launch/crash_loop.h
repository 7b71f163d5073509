// Whether a job that failed is worth another start: one that comes no further fails for ever.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/rendezvous/messages.h"

namespace rondo::launch {

class CrashLoop {
 public:
  // Told of every failure that a restart would follow. Why there is no use in it: the same step as the time
  // before without a new checkpoint, or the third restart without a new step or checkpoint; "": there may be.
  // Nothing is known of programs that are not ours.
  std::string add(const Failure& failure);

 private:
  std::optional<std::int64_t> latest_;
  std::int64_t furthest_ = -1, saved_ = -1;  // steps
  int in_vain_ = 0;                          // restarts in a row
};

}  // namespace rondo::launch
