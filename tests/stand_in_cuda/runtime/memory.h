// The interface of the stand-in's memory to its other parts.
#pragma once

#include <cstdint>

namespace stand_in {

// Notes that a capture begins: later allocations are distinguished from those before the first
// capture.
void note_capture();

// Returns a hash of the device addresses to which the host has copied since the previous call.
std::uint64_t take_copied_to();

}  // namespace stand_in
