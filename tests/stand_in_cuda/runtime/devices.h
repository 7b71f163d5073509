// The devices of the stand-in: H200s, RONDO_STAND_IN_GPUS of them (8).
#pragma once

#include <cstdint>

namespace stand_in {

std::int64_t memory_of_device();  // bytes

}  // namespace stand_in
