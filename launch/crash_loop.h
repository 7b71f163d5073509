// Decides whether a failed job is worth a restart. A job that makes no progress fails forever.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/rendezvous/messages.h"

namespace rondo::launch {

class CrashLoop {
 public:
  // Records a failure that may be followed by a restart. Returns why a restart is useless, or "".
  // It is useless after a second failure in the same step without a new checkpoint in between, and
  // after the third restart without a new step or checkpoint. Programs that report no step may
  // always restart.
  std::string add(const Failure& failure);

 private:
  std::optional<std::int64_t> latest_;
  std::int64_t furthest_ = -1, saved_ = -1;  // steps
  int fruitless_ = 0;                        // consecutive restarts without progress
};

}  // namespace rondo::launch
