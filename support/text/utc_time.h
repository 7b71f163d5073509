// Times in the files of a run and of a checkpoint: "2026-01-31T12:00:00.123Z", in UTC.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo {

// Returns the text of a time in seconds since the epoch.
std::string utc_text(double time_s);
// Returns the text of the present time.
std::string utc_now();

// Returns the seconds since the epoch of such a text, with or without a fraction; nullopt for any
// other text.
std::optional<double> utc_seconds(std::string_view text);

}  // namespace rondo
