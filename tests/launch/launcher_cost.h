// The cost of a launcher while strangers connect to it, and a free port for it.
#pragma once

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>

#include "launch/rendezvous/net.h"
#include "tests/launch/process.h"

namespace rondo::launch {

// Returns a free port below the ephemeral ports. Another process may take it before it is used.
// Tests that run at the same time start their search at another port.
inline std::string free_port() {
  int port = 15000 + getpid() * 13 % 15000;
  for (int failure = 0; !bind_to("127.0.0.1", port, true, failure).fd;) ++port;
  return std::to_string(port);
}

inline Fd connected(const std::string& port) {
  std::string why;
  Fd fd;
  REQUIRE(holds_soon([&] {
    fd = connect_to("127.0.0.1", std::stoi(port), "", 1000, why);
    return static_cast<bool>(fd);
  }));
  return fd;
}

// Returns the processor time used so far.
inline double cpu_seconds(int pid) {
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string word;
  double ticks = 0;
  for (int field = 3; fields >> word && field <= 15; ++field)
    if (field >= 14) ticks += std::stod(word);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

inline int resident_mib(int pid) {
  std::istringstream pages(text_of("/proc/" + std::to_string(pid) + "/statm"));
  long size = 0, resident = 0;
  pages >> size >> resident;
  return static_cast<int>(resident * sysconf(_SC_PAGESIZE) >> 20);
}

}  // namespace rondo::launch
