#include "compiler/execute/replay_watch.h"

#include <fmt/format.h>

#include <cstdlib>

#include "support/error.h"
#include "support/log.h"

namespace rondo {

ReplayWatch::ReplayWatch(std::function<std::int64_t()> counted, Options options,
                         std::function<void(const std::string&)> on_hang)
    : counted_(std::move(counted)),
      options_(options),
      on_hang_(std::move(on_hang)),
      done_(counted_()),
      thread_([this] { watch(); }) {}

ReplayWatch::~ReplayWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ReplayWatch::launched(std::string what, bool first_run) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back(
      {std::move(what), first_run ? options_.first_deadline : options_.deadline, Clock::now()});
}

bool ReplayWatch::hangs(std::int64_t counted, Clock::time_point now) {
  for (; done_ < counted && !under_way_.empty(); ++done_) {
    under_way_.pop_front();
    // It could not begin before: only from now on does its time run.
    if (!under_way_.empty()) under_way_.front().since = now;
  }
  return !under_way_.empty() && now - under_way_.front().since > under_way_.front().deadline;
}

void ReplayWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.interval, [this] { return stop_; })) {
    if (!hangs(counted_(), Clock::now())) continue;
    const Launch& launch = under_way_.front();
    const std::string text = fmt::format(
        "rank {}: {} has run for more than {} ms; another rank is lost or behind, or a kernel hangs: look at "
        "the other ranks' logs",
        options_.rank, launch.what, launch.deadline.count());
    lock.unlock();
    return on_hang_(text);
  }
}

void ReplayWatch::end_hung(const std::string& what) {
  log_error(what);
  std::_Exit(static_cast<int>(ExitCode::peer));
}

}  // namespace rondo
