// Sockets are non-blocking from the start, so a connect is a poll with a timeout and then a look at
// SO_ERROR. Every resolved address is tried in order. A connect to an ephemeral port of this
// machine can connect to itself if nobody listens there. Both addresses are compared, and such a
// connection counts as refused. SO_REUSEADDR is set before every bind.
#include "launch/rendezvous/net.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace rondo::launch {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(std::string host, int port) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &addresses) != 0) addresses = nullptr;
  return {addresses, &freeaddrinfo};
}

Fd open_socket(const addrinfo& address) {
  return Fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 == 127;
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

bool bind_source(const Fd& socket, const std::string& source_addr) {
  const Addresses source = resolve(source_addr, 0);
  return source && bind(socket.get(), source->ai_addr, source->ai_addrlen) == 0;
}

// Returns 0, or the errno of the failure.
int finish_connecting(const Fd& socket, int timeout_ms) {
  pollfd waiting{socket.get(), POLLOUT, 0};
  const int ready = poll(&waiting, 1, timeout_ms);
  if (ready <= 0) return ready == 0 ? ETIMEDOUT : errno;
  int failure = 0;
  socklen_t length = sizeof failure;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  return failure;
}

// Whether the socket is connected to itself. That can happen with an ephemeral port of this machine
// when nobody listens there.
bool is_connected_to_itself(const Fd& socket) {
  sockaddr_storage local{}, peer{};
  socklen_t here_length = sizeof local, there_length = sizeof peer;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &here_length);
  getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &there_length);
  return here_length == there_length && std::memcmp(&local, &peer, here_length) == 0;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Listener bind_to(const std::string& host, int port, bool listening, int& errno_out) {
  errno_out = ENOENT;
  const Addresses addresses = resolve(host, port);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Fd fd = open_socket(*address);
    const int enable = 1;
    const bool bound = fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &enable, sizeof enable) == 0 &&
                       bind(fd.get(), address->ai_addr, address->ai_addrlen) == 0 &&
                       (!listening || listen(fd.get(), SOMAXCONN) == 0);
    if (bound) {
      const int real_port = port_of(fd.get());
      return {std::move(fd), real_port, is_loopback(*address)};
    }
    errno_out = errno;
  }
  return {};
}

std::string bind_problem(const std::string& host, int port, int failure, const std::string& flags,
                         const std::string& rule) {
  if (failure == EADDRINUSE)
    return fmt::format(
        "port {} of {} is in use; end the program that holds it (`ss -ltnp`), or choose another {}", port,
        host, flags);
  return fmt::format("cannot listen on port {} of {}: {}; {}", port, host,
                     failure == ENOENT ? "the name does not resolve" : std::strerror(failure), rule);
}

Fd connect_to(const std::string& host, int port, const std::string& source_addr, int timeout_ms,
              std::string& why) {
  why = "the name " + host + " does not resolve";
  const Addresses addresses = resolve(host, port);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Fd fd = open_socket(*address);
    if (!fd || (!source_addr.empty() && !bind_source(fd, source_addr))) {
      why = "cannot connect from " + source_addr + ": " + std::strerror(errno);
      continue;
    }
    int failure = connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (failure == EINPROGRESS) failure = finish_connecting(fd, timeout_ms);
    const int enable = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &enable, sizeof enable);
    if (failure == 0 && is_connected_to_itself(fd)) failure = ECONNREFUSED;
    if (failure == 0) return fd;
    why = std::strerror(failure);
  }
  return {};
}

}  // namespace rondo::launch
