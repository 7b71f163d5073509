#include "support/text/size_text.h"

#include <fmt/format.h>

#include <span>

namespace rondo {
namespace {

// A value that rounds up to a whole next unit is given in that unit.
std::string in_units(double value, double base, std::span<const char* const> units) {
  value /= base;
  std::size_t unit = 0;
  for (; value >= base - 0.05 && unit + 1 < units.size(); ++unit) value /= base;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

std::string size_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return in_units(static_cast<double>(bytes), 1024, kUnits);
}

std::string count_text(std::int64_t count) {
  constexpr const char* kUnits[] = {"k", "M", "B", "T"};
  if (count < 1000) return fmt::format("{}", count);
  return in_units(static_cast<double>(count), 1000, kUnits);
}

}  // namespace rondo
