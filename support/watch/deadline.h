// Ends work that may hang: runs one action after a time limit, and a later one that does not
// return.
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
    std::chrono::milliseconds after{};  // since construction; stages are in ascending order
    std::function<void()> action;       // called from the deadline's own thread
  };
  explicit Deadline(std::vector<Stage> stages);
  // Meets the deadline: no further stage starts. Waits for a stage that has started.
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
  std::thread thread_;  // last: it reads the other members
};

}  // namespace rondo
