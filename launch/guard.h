// A small process that outlives the launcher, to end what the launcher started.
//
// A rank asks the kernel to be killed with its parent, but its own children do not. When the launcher is
// gone, however it died, the guard's pipe ends; the guard then kills the process groups that are still
// registered and removes the launcher's private folder.
#pragma once

#include <sys/types.h>

#include <string>

#include "launch/rendezvous/net.h"

namespace rondo::launch {

class Guard {
 public:
  explicit Guard(const std::string& private_folder);  // forks
  ~Guard();                                           // lets it finish and waits for it
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);

 private:
  Fd pipe_;
  pid_t pid_ = -1;
};

}  // namespace rondo::launch
