#include "support/files/slow_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "support/log.h"

namespace rondo {
namespace {

constexpr double kWarningInterval_s = 60;

std::mutex mutex;  // guards the variables below, and SlowRead::reported_
double slow_s = 3;
std::vector<SlowRead*> active;
std::optional<Stopwatch> last_warning;
std::int64_t unreported = 0;

}  // namespace

SlowRead::SlowRead(const std::filesystem::path& path, std::int64_t offset) : path_(path), offset_(offset) {
  const std::lock_guard lock(mutex);
  active.push_back(this);
}

SlowRead::~SlowRead() {
  const std::lock_guard lock(mutex);
  active.erase(std::find(active.begin(), active.end(), this));
  warn("took");
}

void SlowRead::warn(const char* verb) {
  if (reported_ || time_.seconds() <= slow_s) return;
  reported_ = true;
  if (last_warning && last_warning->seconds() < kWarningInterval_s) {
    ++unreported;
    return;
  }
  const std::string others =
      unreported == 0 ? "" : fmt::format(", and {} earlier reads were slow", unreported);
  log_warning(fmt::format("{}: a read at byte {} {} {:.1f} s{}; check the disk or the file server",
                          path_.string(), offset_, verb, time_.seconds(), others));
  last_warning.emplace();
  unreported = 0;
}

void set_slow_read(std::chrono::milliseconds slow) {
  const std::lock_guard lock(mutex);
  slow_s = 1e-3 * static_cast<double>(slow.count());
}

void tell_slow_reads() {
  const std::lock_guard lock(mutex);
  for (SlowRead* read : active) read->warn("has taken");
}

}  // namespace rondo
