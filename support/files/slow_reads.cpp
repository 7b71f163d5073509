#include "support/files/slow_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "support/log.h"

namespace rondo {
namespace {

constexpr double kToldEvery_s = 60;

std::mutex mutex;  // guards what follows, and what each read has told
double slow_s = 3;
std::vector<SlowRead*> under_way;
std::optional<Stopwatch> last_told;
std::int64_t untold = 0;

}  // namespace

SlowRead::SlowRead(const std::filesystem::path& path, std::int64_t offset) : path_(path), offset_(offset) {
  const std::lock_guard lock(mutex);
  under_way.push_back(this);
}

SlowRead::~SlowRead() {
  const std::lock_guard lock(mutex);
  under_way.erase(std::find(under_way.begin(), under_way.end(), this));
  tell("took");
}

void SlowRead::tell(const char* verb) {
  if (told_ || time_.seconds() <= slow_s) return;
  told_ = true;
  if (last_told && last_told->seconds() < kToldEvery_s) {
    ++untold;
    return;
  }
  const std::string others = untold == 0 ? "" : fmt::format(", and {} others before were slow", untold);
  log_warning(fmt::format("{}: a read at byte {} {} {:.1f} s{}; look at the disk or the file server",
                          path_.string(), offset_, verb, time_.seconds(), others));
  last_told.emplace();
  untold = 0;
}

void set_slow_read(std::chrono::milliseconds slow) {
  const std::lock_guard lock(mutex);
  slow_s = 1e-3 * static_cast<double>(slow.count());
}

void tell_slow_reads() {
  const std::lock_guard lock(mutex);
  for (SlowRead* read : under_way) read->tell("has taken");
}

}  // namespace rondo
