// Human-readable numbers.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

// Formats bytes in binary units with one decimal: "512 B", "1.5 KiB", "45.5 GiB".
std::string size_text(std::int64_t bytes);

// Formats a count in powers of 1000 with one decimal: "950", "409.6 k", "6.2 M", "8.0 B", "15.6 T".
std::string count_text(std::int64_t count);

}  // namespace rondo
