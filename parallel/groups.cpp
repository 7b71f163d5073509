#include "parallel/groups.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "parallel/error.h"
#include "parallel/ordered_gloo.h"

namespace rondo {
namespace {

struct AddressList {
  addrinfo* head = nullptr;
  ~AddressList() {
    if (head != nullptr) freeaddrinfo(head);
  }
};

void resolve(const std::string& host, int port, int socket_type, AddressList& found) {
  addrinfo hints{};
  hints.ai_socktype = socket_type;
  const int problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found.head);
  if (problem != 0)
    throw Error(ExitCode::environment, "MASTER_ADDR = " + host + " cannot be resolved: " +
                                           gai_strerror(problem) + "; set it to a reachable host");
}

// The address of this machine on the route to `host`: connecting a datagram socket asks the routing table and
// sends nothing.
std::string local_address_towards(const std::string& host, int port) {
  AddressList found;
  resolve(host, port, SOCK_DGRAM, found);
  std::string result = "127.0.0.1";
  for (const addrinfo* entry = found.head; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_DGRAM, 0);
    if (fd < 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    char text[NI_MAXHOST];
    const bool ok = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
                    getnameinfo(reinterpret_cast<sockaddr*>(&local), length, text, sizeof text, nullptr, 0,
                                NI_NUMERICHOST) == 0;
    close(fd);
    if (!ok) continue;
    result = text;
    break;
  }
  return result;
}

// A socket that listens on the given address only: c10d's own server would listen on every interface.
int listen_on(const std::string& host, int port) {
  AddressList found;
  resolve(host, port, SOCK_STREAM, found);
  int last_error = 0;
  for (const addrinfo* entry = found.head; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, entry->ai_addr, entry->ai_addrlen) == 0 && listen(fd, 4096) == 0) return fd;
    last_error = errno;
    close(fd);
  }
  throw Error(ExitCode::environment, "cannot listen on MASTER_ADDR:MASTER_PORT = " + host + ":" +
                                         std::to_string(port) + ": " + std::strerror(last_error) +
                                         "; choose another MASTER_PORT");
}

c10::intrusive_ptr<c10d::Store> meet(const RankEnvironment& environment, std::chrono::seconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0;
  options.numWorkers = environment.world_size;
  options.timeout = timeout;
  if (options.isServer) {
    options.masterListenFd = environment.master_listen_fd >= 0
                                 ? environment.master_listen_fd
                                 : listen_on(environment.master_addr, environment.master_port);
  }
  auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
  return c10::make_intrusive<c10d::PrefixStore>(
      "rondo/" + environment.run_id + "/" + std::to_string(environment.restart_count), store);
}

}  // namespace

struct ProcessGroups::Connection {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<c10d::Backend> gloo;
};

ProcessGroups::ProcessGroups(const RankEnvironment& environment, std::chrono::seconds timeout)
    : rank_(environment.rank), size_(environment.world_size) {
  if (size_ == 1) return;
  connection_ = std::make_unique<Connection>();
  // First, since it fails at once where the master's name does not resolve; the store would retry until its
  // timeout.
  const std::string own_address = local_address_towards(environment.master_addr, environment.master_port);
  try {
    connection_->store = meet(environment, timeout);
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(own_address));
    connection_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>(kDataParallelGroup, connection_->store), rank_, size_,
        options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& cause) {
    const std::string what = cause.what();
    throw Error(ExitCode::peer, "rank " + std::to_string(rank_) + " could not meet the other " +
                                    std::to_string(size_ - 1) + " ranks at " + environment.master_addr + ":" +
                                    std::to_string(environment.master_port) + " within " +
                                    std::to_string(timeout.count()) +
                                    " s (comm.init_timeout_seconds): " + what.substr(0, what.find('\n')));
  }
  connection_->backend = c10::make_intrusive<OrderedGloo>(connection_->gloo);
  connection_->group = c10::make_intrusive<c10d::ProcessGroup>(connection_->store, rank_, size_);
  connection_->group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, connection_->backend);
  connection_->group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  connection_->group->setGroupName(kDataParallelGroup);
  c10d::register_process_group(kDataParallelGroup, connection_->group);
}

ProcessGroups::~ProcessGroups() {
  if (connection_) c10d::unregister_all_process_groups();
}

void ProcessGroups::set_timeout(std::chrono::seconds timeout) {
  if (connection_) connection_->gloo->setTimeout(timeout);
}

void ProcessGroups::barrier() {
  if (connection_) connection_->backend->barrier()->wait();
}

std::vector<std::int64_t> ProcessGroups::all_gather(std::int64_t value) {
  if (!connection_) return {value};
  at::Tensor mine = at::full({1}, value, at::kLong);
  at::Tensor all = at::empty({size_}, at::kLong);
  connection_->backend->_allgather_base(all, mine)->wait();
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + size_};
}

std::vector<std::string> ProcessGroups::all_gather_text(std::string_view key, const std::string& text) {
  if (!connection_) return {text};
  const std::string prefix = std::string(key) + "/";
  connection_->store->set(prefix + std::to_string(rank_),
                          std::vector<std::uint8_t>(text.begin(), text.end()));
  std::vector<std::string> all;
  for (int rank = 0; rank < size_; ++rank) {
    const std::vector<std::uint8_t> bytes = connection_->store->get(prefix + std::to_string(rank));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace rondo
