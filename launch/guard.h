// A small process that outlives the launcher and cleans up after it.
//
// The kernel kills a rank with its parent, but not the rank's children. When the launcher is gone,
// for any reason, the guard's pipe closes. The guard then kills the process groups that are still
// registered and removes the launcher's private folder.
#pragma once

#include <sys/types.h>

#include <string>

#include "launch/rendezvous/net.h"

namespace rondo::launch {

class Guard {
 public:
  explicit Guard(const std::string& private_folder);  // forks
  ~Guard();                                           // lets the guard finish and waits for it
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);

 private:
  Fd pipe_;
  pid_t pid_ = -1;
};

}  // namespace rondo::launch
