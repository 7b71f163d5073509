// The thread wakes once an interval. A late wake-up counts as two intervals at most: a delay of
// this thread also delays the step. Launches are removed by the device's count, which may run ahead
// of the launches reported here. So only reported launches count as done.
#include "support/watch/step_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "support/error.h"
#include "support/log.h"

namespace rondo {

StepWatch::StepWatch(Patience patience, std::function<void(const std::string&)> on_hang)
    : patience_(patience), on_hang_(std::move(on_hang)), thread_([this] { watch(); }) {}

StepWatch::~StepWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

StepWatch::Span::Span(StepWatch& watch, progress::Doing kind) : watch_(watch), work_(kind) {
  watch_.begin(kind);
}
StepWatch::Span::~Span() { watch_.end(); }

void StepWatch::begin(progress::Doing kind) {
  const std::lock_guard lock(mutex_);
  watched_ = kind;
  began_ = Clock::now();
  without_progress_ = {};
}

void StepWatch::end() {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[static_cast<std::size_t>(*watched_)];
  if (kind.spans >= 1)  // the first span takes longer than others
    kind.latest[static_cast<std::size_t>(kind.spans) % kind.latest.size()] = Clock::now() - began_;
  ++kind.spans;
  watched_.reset();
}

void StepWatch::follow(std::function<std::int64_t()> counted) {
  const std::lock_guard lock(mutex_);
  count_ = std::move(counted);
  done_ = seen_ = count_();
}

void StepWatch::launched(std::string what, bool first_run) {
  const std::lock_guard lock(mutex_);
  launches_.push_back({std::move(what), first_run});
}

// An eager step notes no ops: its duration is known only after one has ended.
bool StepWatch::is_unknown() const {
  const progress::Seen seen = progress::seen();
  return kinds_[static_cast<std::size_t>(*watched_)].spans < 2 && launches_.empty() && seen.op.empty() &&
         !seen.waits && seen.doing != progress::Doing::loading;
}

std::chrono::milliseconds StepWatch::limit() const {
  const Kind& kind = kinds_[static_cast<std::size_t>(*watched_)];
  if (kind.spans < 2 || (!launches_.empty() && launches_.front().first_run)) return patience_.first_limit;
  const Clock::duration longest = *std::max_element(kind.latest.begin(), kind.latest.end());
  return std::max(patience_.limit, std::chrono::duration_cast<std::chrono::milliseconds>(5 * longest));
}

// Checks for progress since the previous look: notes of this process, or segments that the device
// has completed.
void StepWatch::look(Clock::duration passed) {
  const std::int64_t notes = progress::notes(), count = count_();
  const bool moved = notes != notes_ || count != seen_;
  notes_ = notes;
  seen_ = count;
  for (; done_ < count && !launches_.empty(); ++done_) launches_.pop_front();
  without_progress_ = moved || !watched_ ? Clock::duration{} : without_progress_ + passed;
}

std::string StepWatch::describe() const {
  const progress::Seen seen = progress::seen();
  const bool is_validation = *watched_ == progress::Doing::validating;
  return fmt::format("{}step {} has made no progress for {:.1f} s, {}",
                     is_validation ? "the validation after " : "", seen.step,
                     std::chrono::duration<double>(without_progress_).count(),
                     launches_.empty() ? progress::where(seen) : "in " + launches_.front().what);
}

void StepWatch::watch() {
  std::unique_lock lock(mutex_);
  Clock::time_point last_look = Clock::now();
  while (!wake_.wait_for(lock, patience_.interval, [this] { return stop_; })) {
    const Clock::time_point now = Clock::now();
    look(std::min<Clock::duration>(now - last_look, 2 * patience_.interval));
    last_look = now;
    if (!watched_ || without_progress_ <= limit() || is_unknown()) continue;
    const std::string text = describe();
    lock.unlock();
    return on_hang_(text);
  }
}

void StepWatch::end_hung(const std::string& what) {
  log_error(what);
  std::_Exit(static_cast<int>(ExitCode::peer));
}

}  // namespace rondo
