#include "support/text/utc_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>

#include "support/text/numbers.h"

namespace rondo {

std::string utc_text(double time_s) {
  const std::int64_t milliseconds = std::llround(1e3 * time_s);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t{milliseconds / 1000}),
                     milliseconds % 1000);
}

std::string utc_now() {
  return utc_text(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

std::optional<double> utc_seconds(std::string_view text) {
  const std::string terminated(text);
  std::tm parts{};
  const char* const end = ::strptime(terminated.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || !text.ends_with('Z')) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - terminated.c_str()));
  const auto seconds = static_cast<double>(::timegm(&parts));
  if (text == "Z") return seconds;
  if (!text.starts_with('.')) return std::nullopt;
  text.remove_suffix(1);
  const std::optional<double> fraction = number_in<double>("0" + std::string(text), 0, 1);
  return fraction ? std::optional(seconds + *fraction) : std::nullopt;
}

}  // namespace rondo
