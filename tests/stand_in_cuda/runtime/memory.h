// What else asks of the stand-in's memory.
#pragma once

#include <cstdint>

namespace stand_in {

// A capture begins: allocations from here on are told apart from those before the first one.
void note_capture();

// A number made of the addresses of devices to which the host copied since it was last asked.
std::uint64_t take_copied_to();

}  // namespace stand_in
