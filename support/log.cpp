#include "support/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

namespace rondo {
namespace {

bool wants_color() {
  if (std::getenv("NO_COLOR") != nullptr) return false;
  if (std::getenv("CLICOLOR_FORCE") != nullptr) return true;
  return isatty(STDERR_FILENO) != 0;
}

struct Backend {
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> sink =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  spdlog::logger logger{"rondo", sink};
  std::atomic<bool> colored = false;

  Backend() {
    set_color(true);
    set_rank("");
    logger.flush_on(spdlog::level::info);
  }
  void set_color(bool allowed) {
    colored = allowed && wants_color();
    sink->set_color_mode(colored ? spdlog::color_mode::always : spdlog::color_mode::never);
  }
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
    case LogLevel::debug:
      return spdlog::level::debug;
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
  backend().logger.log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

void set_log_level(LogLevel lowest) { backend().logger.set_level(spdlog_level(lowest)); }
void set_log_rank(int rank) { backend().set_rank("rank " + std::to_string(rank) + " "); }
void set_log_color(bool allowed) { backend().set_color(allowed); }
bool log_has_color() { return backend().colored; }

}  // namespace rondo
