// A number of bytes as people read it.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

// In binary units with one decimal: "512 B", "1.5 KiB", "45.5 GiB".
std::string size_text(std::int64_t bytes);

}  // namespace rondo
