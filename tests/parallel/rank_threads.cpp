#include "tests/parallel/rank_threads.h"

#include <thread>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace rondo {
namespace {

using Member = c10::intrusive_ptr<OrderedGloo>;

using Store = c10::intrusive_ptr<c10d::Store>;

void on_members(int ranks, const std::function<void(int, const Member&)>& body,
                const Store& store = c10::make_intrusive<c10d::HashStore>()) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      body(rank, c10::make_intrusive<OrderedGloo>(
                     connect_gloo(store, rank, ranks, "127.0.0.1", std::chrono::seconds(30))));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void on_gloo(int ranks, const std::function<void(int, OrderedGloo&)>& body, const Store& store) {
  const auto each = [&](int rank, const Member& member) { body(rank, *member); };
  store ? on_members(ranks, each, store) : on_members(ranks, each);
}

void on_ranks(int ranks, const std::function<void(std::int64_t, const AxisGroup&)>& body) {
  on_members(ranks, [&](int rank, const Member& member) {
    const auto group =
        c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), rank, ranks);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, member);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    const std::string name = "ranks of " + std::to_string(rank);
    c10d::register_process_group(name, group);
    body(rank, {name, ranks, 1});
    c10d::unregister_process_group(name);
  });
}

}  // namespace rondo
