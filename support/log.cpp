// One sink writes to stderr and to the file of `keep_log`, because both need the formatted line.
// Neither may stop a run: stderr is written only while it accepts bytes, and a file that fails is
// left alone until the next line.
#include "support/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/logged_warnings.h"
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

// Prints "warning: " and "error: ", and nothing for other levels.
class LevelFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    if (message.level < spdlog::level::warn) return;
    const std::string_view text = message.level == spdlog::level::warn ? "warning: " : "error: ";
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelFlag>(); }
};

// Returns a text without the control sequences of colours, which are the only ones in a line.
std::string without_colors(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\033')
      at = std::min(text.find('m', at), text.size());
    else
      plain += text[at];
  }
  return plain;
}

// A file that is renamed when it is full. Errors lose lines.
class LogFile {
 public:
  // Returns "" or the error.
  std::string open(std::string path) {
    close();
    // O_NONBLOCK: opening a pipe must not wait for a reader.
    fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    struct stat facts {};
    if (fd_ < 0 || ::fstat(fd_, &facts) != 0) return std::strerror(errno);
    path_ = std::move(path);
    bytes_ = static_cast<std::size_t>(facts.st_size);
    return "";
  }
  void write(std::string_view line) {
    if (fd_ < 0) return;
    if (bytes_ + line.size() > kMaxLogFileBytes && std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0)
      open(std::string(path_));
    const ssize_t written = ::write(fd_, line.data(), line.size());
    if (written > 0) bytes_ += static_cast<std::size_t>(written);
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  ~LogFile() { close(); }

 private:
  std::string path_;
  int fd_ = -1;
  std::size_t bytes_ = 0;
};

// Writes what stderr accepts without blocking. A pipe that polls as writable accepts PIPE_BUF
// bytes.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  ~StderrSink() override { flush_(); }

  std::atomic<bool> colored = false;

  std::string keep(const std::string& path) {
    const std::lock_guard lock(mutex_);
    keeps_early_ = path.empty();
    std::string error;
    if (path.empty())
      file_.close();
    else
      error = file_.open(path);
    file_.write(std::exchange(early_, {}));
    return error;
  }

  std::vector<std::string> take_warnings() {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    const std::string plain = without_colors(text);
    if (keeps_early_ && early_.size() + plain.size() <= kMaxBuffered) early_ += plain;
    file_.write(plain);
    if (message.level == spdlog::level::warn && warnings_.size() < kMaxWarnings)
      warnings_.emplace_back(message.payload.data(), message.payload.size());
    print(message, text);
  }
  void flush_() override { write_ready(kMaxWait_ms); }

 private:
  static constexpr std::size_t kMaxBuffered = 64 << 10;
  static constexpr int kMaxWait_ms = 2000;
  static constexpr std::size_t kMaxWarnings = 100;

  void print(const spdlog::details::log_msg& message, std::string_view text) {
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
  LogFile file_;
  std::string early_;  // the first lines, for a file that is opened later
  bool keeps_early_ = true;
  std::vector<std::string> warnings_;  // that nobody has taken
};

struct Backend;
Backend& backend();

struct Backend {
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  spdlog::logger logger{"rondo", sink};

  Backend() {
    set_color(true);
    set_rank("");
    // quick_exit does not run the destructor, which does the same
    std::at_quick_exit([] { backend().sink->flush(); });
  }
  void set_color(bool allowed) { sink->colored = allowed && wants_color(); }
  void set_rank(const std::string& tag) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LevelFlag>('*').set_pattern(tag + "%m-%d %H:%M:%S %^%*%$%v");
    logger.set_formatter(std::move(formatter));
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

namespace {
std::atomic<int> this_rank{0};
}
void log_info_on_rank_0(std::string_view text) {
  if (this_rank == 0) log_info(text);
}
void set_log_rank(int rank) {
  this_rank = rank;
  backend().set_rank(log_tag(rank));
}
std::string log_tag(int rank) { return "[" + std::to_string(rank) + "] "; }
std::string keep_log(const std::string& path) { return backend().sink->keep(path); }
std::vector<std::string> take_logged_warnings() { return backend().sink->take_warnings(); }
void set_log_color(bool allowed) { backend().set_color(allowed); }
bool log_has_color() { return backend().sink->colored; }

}  // namespace rondo
