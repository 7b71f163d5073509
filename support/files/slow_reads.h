// Warns of reads that take more than 3 s (set_slow_read). Each read is reported once. There is at
// most one warning a minute; it counts the others. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "support/stopwatch.h"

namespace rondo {

// One read, from construction to destruction, which reports it if it was slow. `path` must outlive
// it.
class SlowRead {
 public:
  SlowRead(const std::filesystem::path& path, std::int64_t offset);
  ~SlowRead();
  SlowRead(const SlowRead&) = delete;
  SlowRead& operator=(const SlowRead&) = delete;

 private:
  friend void tell_slow_reads();
  void warn(const char* verb);

  const std::filesystem::path& path_;
  const std::int64_t offset_;
  const Stopwatch time_;
  bool reported_ = false;
};

void set_slow_read(std::chrono::milliseconds slow);

// Reports slow reads that are in progress. For a thread that waits for another one, which may hang
// in a read.
void tell_slow_reads();

}  // namespace rondo
