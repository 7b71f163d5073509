// c10d's own calls block for their whole timeout and ignore signals. So ranks wait in short slices,
// probe the port before they create a store client, and fail with one line that names what is
// missing. Keys begin with the run and the restart, which keeps late ranks of earlier attempts out,
// and with the first rank, since other groups may share a name. NCCL groups close in reverse order.
#include "parallel/groups/groups.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "launch/rendezvous/net.h"
#include "parallel/groups/collective_abort.h"
#include "parallel/groups/comm_record.h"
#include "parallel/groups/gpu_records.h"
#include "parallel/groups/nccl.h"
#include "parallel/groups/nccl_errors.h"
#include "parallel/groups/ordered_gloo.h"
#include "support/error.h"
#include "support/log.h"
#include "support/process_start.h"
#include "support/stop_signal.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kDescriptorsOfARank = 40;  // files of the run, LibTorch's libraries, Gloo's own

// Returns the address of this machine on the route to `host`. Connecting a datagram socket queries
// the routing table and sends nothing.
std::string local_address_towards(const std::string& host, int port) {
  addrinfo hints{}, *addresses = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const int problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &addresses);
  if (problem != 0)
    throw Error(ExitCode::environment, "MASTER_ADDR = " + host + " cannot be resolved: " +
                                           gai_strerror(problem) + "; set it to a reachable host");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(addresses, &freeaddrinfo);
  for (const addrinfo* entry = addresses; entry != nullptr; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_DGRAM, 0);
    if (fd < 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    auto* address = reinterpret_cast<sockaddr*>(&local);
    char text[NI_MAXHOST];
    const bool ok = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                    getsockname(fd, address, &length) == 0 &&
                    getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
    close(fd);
    if (ok) return text;
  }
  return "127.0.0.1";
}

// Waits for the other ranks in short slices. A stop signal or the deadline throws Error(peer).
class Patience {
 public:
  Patience(const RankEnvironment& environment, std::chrono::seconds timeout)
      : environment_(environment), timeout_(timeout), deadline_(Clock::now() + timeout) {}

  // Sleeps for one slice, longer each time. `state` names what is missing, for the error.
  void pause(const std::string& state) {
    if (stop_requested()) throw Error(ExitCode::peer, "stopped while waiting for the other ranks");
    if (Clock::now() >= deadline_) give_up(state);
    std::this_thread::sleep_for(slice_);
    slice_ = std::min(slice_ * 3 / 2, std::chrono::microseconds(200'000));
  }
  [[noreturn]] void give_up(const std::string& state) const {
    const int others = environment_.world_size - 1;
    throw Error(ExitCode::peer,
                fmt::format("rank {} could not rendezvous with the other {} at {}:{} within {} s "
                            "(comm.init_timeout_seconds): {}",
                            environment_.rank, others == 1 ? "rank" : fmt::format("{} ranks", others),
                            environment_.master_addr, environment_.master_port, timeout_.count(), state));
  }

 private:
  const RankEnvironment& environment_;
  std::chrono::seconds timeout_;
  Clock::time_point deadline_;
  std::chrono::microseconds slice_{2000};
};

// Returns a socket on MASTER_ADDR only. c10d's own server would listen on every interface.
int listening_socket(const RankEnvironment& environment) {
  if (environment.master_listen_fd >= 0) return environment.master_listen_fd;
  int problem = 0;
  launch::Listener listener =
      launch::bind_to(environment.master_addr, environment.master_port, /*listening=*/true, problem);
  if (!listener.fd)
    throw Error(ExitCode::environment,
                fmt::format("cannot listen on MASTER_ADDR:MASTER_PORT = {}:{}: {}; {}",
                            environment.master_addr, environment.master_port, std::strerror(problem),
                            problem == EADDRINUSE ? "choose another MASTER_PORT"
                                                  : "MASTER_ADDR must be an address of this host (rank 0)"));
  return dup(listener.fd.get());  // the store closes its copy
}

// A store that waits in short slices, since c10d's wait ignores stop signals. Gloo would wait for a
// lost rank until its timeout.
class InterruptibleStore final : public c10d::PrefixStore {
 public:
  using c10d::PrefixStore::PrefixStore;

  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const Clock::time_point deadline = Clock::now() + timeout;
    for (;;) {
      if (stop_requested()) throw Error(ExitCode::peer, "stopped while waiting for the other ranks");
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      const bool is_last = left <= kSlice;
      try {
        return PrefixStore::wait(keys, is_last ? std::max(left, std::chrono::milliseconds(1)) : kSlice);
      } catch (const c10::DistStoreError&) {
        if (is_last) throw;
      }
    }
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    wait({key});
    return PrefixStore::get(key);
  }
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    wait(keys);
    return PrefixStore::multiGet(keys);
  }

 private:
  static constexpr std::chrono::milliseconds kSlice{500};
};

// Connects to the store of rank 0, with a short timeout for each attempt, since c10d's client
// ignores stop signals while it waits. A probe of the port first avoids c10d's warnings about a
// port without a listener.
c10::intrusive_ptr<c10d::Store> join(const RankEnvironment& environment, c10d::TCPStoreOptions options,
                                     Patience& patience) {
  const auto timeout = options.timeout;
  options.timeout = std::chrono::seconds(2);
  for (std::string why;;) {
    if (launch::connect_to(environment.master_addr, environment.master_port, "", 1000, why)) {
      try {
        const auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
        store->setTimeout(timeout);
        return store;
      } catch (const c10::Error&) {
        why = "rank 0 does not answer";
      }
    }
    patience.pause("no process listens there (" + why + ")");
  }
}

c10::intrusive_ptr<c10d::Store> rendezvous(const RankEnvironment& environment, std::chrono::seconds timeout) {
  // One connection to every other rank in the group of all ranks, others in further groups. Rank 0
  // also serves the store.
  require_descriptors(kDescriptorsOfARank + 3 * environment.world_size);
  Patience patience(environment, timeout);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (options.isServer) options.masterListenFd = listening_socket(environment);
  const c10::intrusive_ptr<c10d::Store> served =
      options.isServer ? c10::intrusive_ptr<c10d::Store>(
                             c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options))
                       : join(environment, options, patience);
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("rondo/{}/{}/{}", environment.run_id, environment.restart_count, environment.store_token),
      served);
  const std::string arrived = "arrived", everyone = "everyone";
  std::int64_t present = store->add(arrived, 1);
  while (present < environment.world_size && !store->check({everyone})) {
    patience.pause(fmt::format("{} of {} ranks have arrived", present, environment.world_size));
    present = store->add(arrived, 0);
  }
  store->set(everyone, std::string("1"));
  return store;
}

}  // namespace

struct ProcessGroups::Connection {
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

  Connection(const RankEnvironment& environment, std::chrono::seconds timeout, c10::Device device)
      : environment(environment), timeout(timeout), device(device) {}

  RankEnvironment environment;
  std::chrono::seconds timeout;
  c10::Device device;
  // Before the store, since it fails at once where MASTER_ADDR does not resolve. The store would
  // retry until its timeout.
  std::string own_address = local_address_towards(environment.master_addr, environment.master_port);
  c10::intrusive_ptr<c10d::Store> store{};
  BackendPtr of_all{};                                           // Gloo, all ranks
  std::vector<BackendPtr> gloo{}, nccl{};                        // one per group
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups{};  // the registry does not own them

  CollectiveAbort abort_threads{};  // of all NCCL groups

  // NCCL tells the kernels of a group to stop, then waits until no recording has a kernel of it. So
  // groups are aborted concurrently, and concurrently with the thread that destroys the recordings.
  void abort() {
    std::vector<std::function<void()>> actions;
    for (const auto& backend : nccl)
      actions.emplace_back([this, &backend] { without_throwing([&] { abort_nccl(*backend); }); });
    abort_threads.start(actions);
  }

  template <class Action>
  void without_throwing(Action action) noexcept {
    try {
      action();
    } catch (const std::exception& error) {
      log_warning(std::string("closing the connections between GPUs: ") + error.what());
    }
  }

  // Connects to the other ranks of the group and registers it for functional collectives. The first
  // group holds all ranks.
  void add(const GroupMembers& members) {
    const auto size = static_cast<int>(members.ranks.size());
    const auto place = std::find(members.ranks.begin(), members.ranks.end(), environment.rank);
    RONDO_ASSERT(place != members.ranks.end(), "a rank is not in its own group " + members.name);
    const auto rank = static_cast<int>(place - members.ranks.begin());
    // Groups of other ranks may have the same name: the first rank tells them apart.
    const auto group_store = [&](const std::string& kind) {
      return c10::make_intrusive<c10d::PrefixStore>(
          members.name + "/" + std::to_string(members.ranks.front()) + kind, store);
    };
    const auto group = groups.emplace_back(c10::make_intrusive<c10d::ProcessGroup>(store, rank, size));
    group->setGroupName(members.name);
    if (!of_all || device.is_cpu()) {
      gloo.push_back(c10::make_intrusive<OrderedGloo>(connect_gloo(
          c10::make_intrusive<InterruptibleStore>("", group_store("")), rank, size, own_address, timeout)));
      gloo.back()->setGroupUid(members.name);  // the group's name in the flight recorder
      if (!of_all) of_all = gloo.back();
      group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, gloo.back());
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    }
    if (device.is_cuda()) {
      if (nccl.empty()) size_nccl_record(comm_record::kept());
      nccl.push_back(
          connect_nccl(group_store("/nccl"), {members.name, rank, members.ranks}, device, timeout));
      group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl.back());
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
    }
    c10d::register_process_group(members.name, group);
  }

  // Turns what c10d throws during rendezvous into one line that says what to try.
  template <class Rendezvous>
  void with_patience(Rendezvous connect) {
    try {
      connect();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& cause) {
      if (!lack_of_memory(cause.what()).empty()) throw;
      Patience(environment, timeout).give_up(reason_of(cause.what()));
    }
  }
};

ProcessGroups::ProcessGroups(const RankEnvironment& environment, const std::string& name_of_all,
                             std::chrono::seconds timeout, c10::Device device)
    : rank_(environment.rank), size_(environment.world_size) {
  if (size_ == 1) return;
  connection_ = std::make_shared<Connection>(environment, timeout, device);
  GroupMembers all{name_of_all, {}};
  for (std::int64_t rank = 0; rank < size_; ++rank) all.ranks.push_back(rank);
  connection_->with_patience([&] {
    connection_->store = rendezvous(environment, timeout);
    if (device.is_cuda()) refuse_shared_gpu(*connection_->store, environment, device);
    connection_->add(all);
  });
}

void ProcessGroups::add(const std::vector<GroupMembers>& groups) {
  if (!connection_) return;
  connection_->with_patience([&] {
    for (const GroupMembers& group : groups) connection_->add(group);
  });
}

ProcessGroups::~ProcessGroups() {
  if (!connection_) return;
  for (auto backend = connection_->nccl.rbegin(); backend != connection_->nccl.rend(); ++backend)
    if (!connection_->abort_threads.started()) connection_->without_throwing([&] { (*backend)->shutdown(); });
  connection_->abort_threads.wait();
  c10d::unregister_all_process_groups();
}

void ProcessGroups::set_timeout(std::chrono::seconds timeout) {
  if (!connection_) return;
  for (const auto& backend : connection_->gloo) backend->setTimeout(timeout);
  // NCCL counts a collective's time from its enqueue. With recorded steps, that is up to two steps
  // before the device reaches it. StepWatch ends a step that stands still.
  for (const auto& backend : connection_->nccl) backend->setTimeout(std::chrono::hours(24));
}

void ProcessGroups::refuse_failed() const {
  if (!connection_) return;
  for (std::size_t i = 0; i < connection_->nccl.size(); ++i) {
    const std::string failure = failure_of_nccl(*connection_->nccl[i]);
    if (!failure.empty())
      throw Error(ExitCode::peer, "group " + connection_->groups[i]->getGroupName() + " of rank " +
                                      std::to_string(rank_) + ": " + failure +
                                      "; another rank is lost or behind: read the other ranks' logs");
  }
}

std::function<void()> ProcessGroups::collective_abort() const {
  return [weak = std::weak_ptr<Connection>(connection_)] {
    if (const std::shared_ptr<Connection> connection = weak.lock()) connection->abort();
  };
}

void ProcessGroups::barrier() {
  if (connection_) connection_->of_all->barrier()->wait();
}

std::vector<std::int64_t> ProcessGroups::all_gather(std::int64_t value) {
  if (!connection_) return {value};
  at::Tensor mine = at::full({1}, value, at::kLong);
  at::Tensor all = at::empty({size_}, at::kLong);
  connection_->of_all->_allgather_base(all, mine)->wait();
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + size_};
}

std::vector<std::int64_t> ProcessGroups::maximum(std::vector<std::int64_t> values) {
  if (!connection_) return values;
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<at::Tensor> tensors = {at::empty({count}, at::kLong)};
  std::memcpy(tensors[0].data_ptr(), values.data(), tensors[0].nbytes());
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  connection_->of_all->allreduce(tensors, options)->wait();
  const auto* first = tensors[0].const_data_ptr<std::int64_t>();
  return {first, first + count};
}

namespace {

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

std::vector<std::string> ProcessGroups::gather_text(std::string_view key, const std::string& text) {
  if (!connection_) return {text};
  const std::string prefix = std::string(key) + "/";
  if (rank_ != 0) {
    connection_->store->set(prefix + std::to_string(rank_), bytes_of(text));
    return {};
  }
  std::vector<std::string> all = {text};
  for (int rank = 1; rank < size_; ++rank) {
    const std::string name = prefix + std::to_string(rank);
    all.push_back(text_of(connection_->store->get(name)));
    connection_->store->deleteKey(name);
  }
  return all;
}

std::string ProcessGroups::broadcast_text(std::string_view key, const std::string& text, int from) {
  if (!connection_) return text;
  if (rank_ == from) {
    connection_->store->set(std::string(key), bytes_of(text));
    return text;
  }
  return text_of(connection_->store->get(std::string(key)));
}

std::optional<ProcessGroups::OtherText> ProcessGroups::first_other_text(std::string_view key,
                                                                        const std::string& text, int block) {
  const auto mismatch =
      first_mismatch(all_gather(static_cast<std::int64_t>(std::hash<std::string>{}(text))), block);
  if (!mismatch) return std::nullopt;
  OtherText other{*mismatch, "", ""};
  other.text_of_first = broadcast_text(std::string(key) + "/first", text, other.first);
  other.text = broadcast_text(std::string(key) + "/other", text, other.rank);
  barrier();  // rank 0, which holds the texts, may leave now
  return other;
}

}  // namespace rondo
