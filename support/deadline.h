// Ends something that may hang: an action after a while, and another, which does not return, after a longer
// one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo {

class Deadline {
 public:
  struct Stage {
    std::chrono::milliseconds after{};  // counted from the construction; stages in rising order
    std::function<void()> action;       // called from a thread of the deadline's own
  };
  explicit Deadline(std::vector<Stage> stages);
  // In time: no further stage begins; one that has begun is waited for.
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void watch();

  const std::vector<Stage> stages_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool met_ = false;
  std::thread thread_;  // last: it reads the others
};

}  // namespace rondo
