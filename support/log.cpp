#include "support/log.h"

#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "support/printable.h"

namespace rondo {
namespace {

bool wants_color() {
  if (std::getenv("NO_COLOR") != nullptr) return false;
  if (std::getenv("CLICOLOR_FORCE") != nullptr) return true;
  return isatty(STDERR_FILENO) != 0;
}

const char* color_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "\033[36m";
    case spdlog::level::warn:
      return "\033[33m\033[1m";
    case spdlog::level::err:
      return "\033[31m\033[1m";
    default:
      return "\033[32m";
  }
}

// Writes what stderr accepts without blocking. A pipe that polls as writable accepts PIPE_BUF
// bytes.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~StderrSink() override { write_ready(kMaxWait_ms); }

  std::atomic<bool> colored = false;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (buffered_.size() > kMaxBuffered) write_ready(0);
    // Once lines are dropped, further lines are dropped until half of the buffer is free.
    if (message.level < spdlog::level::err &&
        buffered_.size() > (dropped_ > 0 ? kMaxBuffered / 2 : kMaxBuffered)) {
      ++dropped_;
      return write_ready(0);
    }
    if (dropped_ > 0)
      buffered_ +=
          "[rondo] " + std::to_string(dropped_) + " lines of the log were dropped: stderr was not read\n";
    dropped_ = 0;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (colored && message.color_range_end > message.color_range_start) {
      buffered_.append(text.substr(0, message.color_range_start)).append(color_of(message.level));
      buffered_ +=
          text.substr(message.color_range_start, message.color_range_end - message.color_range_start);
      buffered_.append("\033[m").append(text.substr(message.color_range_end));
    } else {
      buffered_ += text;
    }
    write_ready(message.level >= spdlog::level::err ? kMaxWait_ms : 0);
  }
  void flush_() override {}

 private:
  static constexpr std::size_t kMaxBuffered = 64 << 10;
  static constexpr int kMaxWait_ms = 2000;

  void write_ready(int patience_ms) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    while (!buffered_.empty() && poll(&ready, 1, patience_ms) > 0) {
      const ssize_t written =
          ::write(STDERR_FILENO, buffered_.data(), std::min<std::size_t>(buffered_.size(), PIPE_BUF));
      if (written >= 0)
        buffered_.erase(0, static_cast<std::size_t>(written));
      else if (errno != EINTR && errno != EAGAIN)
        buffered_.clear();  // the reader is gone
    }
  }

  std::string buffered_;
  std::int64_t dropped_ = 0;
};

struct Backend {
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  spdlog::logger logger{"rondo", sink};

  Backend() {
    set_color(true);
    set_rank("");
  }
  void set_color(bool allowed) { sink->colored = allowed && wants_color(); }
  void set_rank(const std::string& rank) {
    logger.set_pattern("[rondo] %Y-%m-%d %H:%M:%S " + rank + "%^%-7l%$ %v");
  }
};

Backend& backend() {
  static Backend the_backend;
  return the_backend;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void log(LogLevel level, std::string_view text) {
  backend().logger.log(spdlog_level(level), printable(text, kMaxMessageBytes));
}
void log_styled(std::string_view text) {
  backend().logger.log(spdlog::level::info, spdlog::string_view_t(text.data(), text.size()));
}

void set_log_rank(int rank) { backend().set_rank("rank " + std::to_string(rank) + " "); }
void set_log_color(bool allowed) { backend().set_color(allowed); }
bool log_has_color() { return backend().sink->colored; }

}  // namespace rondo
