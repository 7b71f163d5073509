// Warns of reads that take more than 3 s, where set_slow_read says nothing else: each once, and at most one a
// minute, which counts the others.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "support/stopwatch.h"

namespace rondo {

// One read, from construction to destruction; told then where it was slow. `path` outlives it.
class SlowRead {
 public:
  SlowRead(const std::filesystem::path& path, std::int64_t offset);
  ~SlowRead();
  SlowRead(const SlowRead&) = delete;
  SlowRead& operator=(const SlowRead&) = delete;

 private:
  friend void tell_slow_reads();
  void tell(const char* verb);

  const std::filesystem::path& path_;
  const std::int64_t offset_;
  const Stopwatch time_;
  bool told_ = false;
};

void set_slow_read(std::chrono::milliseconds slow);

// Tells of those under way: for a thread that waits for another one, which may hang in a read.
void tell_slow_reads();

}  // namespace rondo
