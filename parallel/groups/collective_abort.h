// Actions that may hang until something else is done, such as ending the connections of several groups: begun
// together, waited for later. Any thread.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo {

class Endings {
 public:
  ~Endings() { wait(); }

  // Each in a thread of its own. Only the first call begins them, and none does after `wait`. They must not
  // throw.
  void begin(const std::vector<std::function<void()>>& actions);
  bool begun() const;
  // Until all that were begun are done; none is begun after that.
  void wait();

 private:
  mutable std::mutex mutex_;
  std::vector<std::thread> threads_;
  bool begun_ = false, closed_ = false;
};

}  // namespace rondo
