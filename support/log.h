// Log lines on stderr. spdlog is hidden here: its fmt and LibTorch's do not compile together.
//
// Logging never delays a run. Up to 64 KiB that stderr does not accept are buffered. Further lines
// are dropped, counted, and reported once there is room. Only an error, and the end of the process,
// wait up to two seconds for the reader.
//
// Texts are made printable, and cut at kMaxMessageBytes (support/printable.h).
//
// Thread-safe. A line reads `[3] 01-31 12:00:00 text`, a warning `[3] 01-31 12:00:00 warning:
// text`. The number is the rank; it is absent before `set_log_rank`.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

enum class LogLevel { info, warning, error };

void log(LogLevel level, std::string_view text);
inline void log_info(std::string_view text) { log(LogLevel::info, text); }
inline void log_warning(std::string_view text) { log(LogLevel::warning, text); }
// Logs what every rank would log, on rank 0 alone.
void log_info_on_rank_0(std::string_view text);
inline void log_error(std::string_view text) { log(LogLevel::error, text); }

// Logs a text that has only control sequences of this program, such as colours.
void log_styled(std::string_view text);

void set_log_rank(int rank);
// Returns how the lines of a rank begin: "[3] ".
std::string log_tag(int rank);
// Appends the lines to a file as well, without colours and without waiting for stderr. Begins with
// the first 64 KiB that this process has logged before. A file that reaches kMaxLogFileBytes is
// renamed to `PATH.1`, which replaces an earlier one. Lines that a full disk does not accept are
// lost. An empty path ends this. Returns why the file cannot be opened, or "".
std::string keep_log(const std::string& path);
inline constexpr std::size_t kMaxLogFileBytes = 8 << 20;
// Lines are coloured if stderr is a terminal and NO_COLOR is unset, or if CLICOLOR_FORCE is set.
// `false` turns colour off permanently.
void set_log_color(bool allowed);
// Whether lines are coloured, for callers that colour parts of their text.
bool log_has_color();

}  // namespace rondo
