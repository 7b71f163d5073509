// Sockets and file descriptors of the launcher. All are close-on-exec. A socket listens on the
// given address, never on all addresses.
#pragma once

#include <string>
#include <utility>

namespace rondo::launch {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }
  void reset();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Listener {
  Fd fd;
  int port = 0;
  bool is_loopback = false;  // reachable only from this machine
};

// Returns a TCP socket bound to host:port with SO_REUSEADDR; port 0 selects a free port. With
// `listening` false it only binds: the program that inherits the port binds it again with
// SO_REUSEADDR, which a listening socket would prevent. On failure returns an empty fd and sets
// errno_out: EADDRINUSE, EADDRNOTAVAIL (no address of this machine), or ENOENT for a name that does
// not resolve.
Listener bind_to(const std::string& host, int port, bool listening, int& errno_out);
// Returns the problem of a bind_to that set errno_out to `failure`, and what to do: choose another
// of `flags` if the port is in use, otherwise keep to `rule`.
std::string bind_problem(const std::string& host, int port, int failure, const std::string& flags,
                         const std::string& rule);

// Connects within timeout_ms, from source_addr unless it is empty. The socket is non-blocking. On
// failure returns an empty fd and sets `why`.
Fd connect_to(const std::string& host, int port, const std::string& source_addr, int timeout_ms,
              std::string& why);

}  // namespace rondo::launch
