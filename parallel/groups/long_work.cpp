// The work stays on the thread that was told to do it, which may have a device and a stream of its own; a
// helper asks the others meanwhile. An error is held back until all are done, so that no rank is left alone
// in an exchange; rank 0's travels as its exit code and text.
#include "parallel/groups/long_work.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "support/error.h"
#include "support/log.h"
#include "support/stopwatch.h"

namespace rondo {
namespace {

constexpr std::chrono::milliseconds kPause{5};
constexpr double kLong_s = 60;

}  // namespace

void wait_while(ProcessGroups& groups, const std::function<bool()>& busy, const std::string& what) {
  const Stopwatch time;
  double told_at = kLong_s;
  while (true) {
    const bool this_one = busy();
    if (groups.maximum({this_one})[0] == 0) return;
    if (this_one && time.seconds() >= told_at) {
      log_warning(fmt::format("{} takes {:.0f} s so far", what, time.seconds()));
      told_at *= 2;
    }
    std::this_thread::sleep_for(kPause);
  }
}

void do_on_all(ProcessGroups& groups, const std::function<void()>& work, const std::string& what) {
  std::atomic<bool> busy = true;
  std::exception_ptr lost, failure;
  {
    const std::jthread asks([&] {
      try {
        wait_while(
            groups, [&] { return busy.load(); }, what);
      } catch (...) {
        lost = std::current_exception();
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
  if (lost) std::rethrow_exception(lost);
}

std::string do_on_first(ProcessGroups& groups, const std::function<std::string()>& work,
                        const std::string& key, const std::string& what) {
  std::string answer;
  do_on_all(
      groups,
      [&] {
        if (groups.rank() != 0) return;
        try {
          answer = "+" + work();
        } catch (const Error& error) {
          answer = fmt::format("{} {}", static_cast<int>(error.code()), error.what());
        }
      },
      what);
  answer = groups.broadcast_text(key, answer);
  if (answer[0] == '+') return answer.substr(1);
  const std::size_t space = answer.find(' ');
  throw Error(static_cast<ExitCode>(std::stoi(answer.substr(0, space))), answer.substr(space + 1));
}

}  // namespace rondo
