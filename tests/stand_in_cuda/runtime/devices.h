// The devices that the stand-in shows: like H200s, as many as RONDO_STAND_IN_GPUS says (8).
#pragma once

#include <cstdint>

namespace stand_in {

std::int64_t memory_of_device();  // bytes

}  // namespace stand_in
