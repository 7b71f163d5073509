// `work` stays on the calling thread, which may have its own device and stream. A second thread
// exchanges flags with the other ranks meanwhile. An error is held back until all ranks are
// done, so that no rank is left alone in an exchange. An error of rank 0 travels as its exit
// code and text.
#include "parallel/groups/long_work.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "support/log.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

constexpr std::chrono::milliseconds kPause{5};
constexpr double kLong_s = 60;

}  // namespace

void wait_while(ProcessGroups& groups, const std::function<bool()>& busy, const std::string& what) {
  const Stopwatch time;
  double warn_at = kLong_s;
  while (true) {
    const bool is_busy = busy();
    if (groups.maximum({is_busy})[0] == 0) return;
    if (is_busy && time.seconds() >= warn_at) {
      log_warning(fmt::format("{} takes {:.0f} s so far", what, time.seconds()));
      warn_at *= 2;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void do_on_all(ProcessGroups& groups, const std::function<void()>& work, const std::string& what) {
  std::atomic<bool> busy = true;
  std::exception_ptr peer_failure, failure;
  {
    const std::jthread exchange([&] {
      try {
        wait_while(
            groups, [&] { return busy.load(); }, what);
      } catch (...) {
        peer_failure = std::current_exception();
      }
    });
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    busy = false;
  }
  if (failure) std::rethrow_exception(failure);
  if (peer_failure) std::rethrow_exception(peer_failure);
}

const std::string& RankOutcome::value() const {
  if (!ok()) throw Error(code, text);
  return text;
}

std::string RankOutcome::to_wire() const { return fmt::format("{} {}", static_cast<int>(code), text); }

RankOutcome RankOutcome::from_wire(const std::string& wire) {
  const std::size_t space = wire.find(' ');
  return {static_cast<ExitCode>(std::stoi(wire.substr(0, space))), wire.substr(space + 1)};
}

RankOutcome do_on_first(ProcessGroups& groups, const std::function<std::string()>& work,
                        const std::string& key, const std::string& what) {
  RankOutcome outcome;
  do_on_all(
      groups,
      [&] {
        if (groups.rank() != 0) return;
        try {
          outcome.text = work();
        } catch (const Error& error) {
          outcome = {error.code(), error.what()};
        }
      },
      what);
  return RankOutcome::from_wire(groups.broadcast_text(key, outcome.to_wire()));
}

}  // namespace rondo
