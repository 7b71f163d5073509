// Messages between ranks in separate processes.
#include "parallel/groups/messages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <functional>

#include "launch/rendezvous/net.h"
#include "parallel/groups/comm_record.h"
#include "parallel/groups/groups.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Edges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // from, to

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

RankEnvironment environment_of(int rank, int ranks, const launch::Listener& listener) {
  RankEnvironment environment;
  environment.rank = environment.local_rank = rank;
  environment.world_size = environment.local_world_size = ranks;
  environment.master_port = listener.port;
  if (rank == 0) environment.master_listen_fd = listener.fd.get();
  return environment;
}

// Runs `body` on every rank after it has added `groups_of(rank)`. Returns the exit codes: 0, or 1
// where `body` threw.
using GroupsOf = std::function<std::vector<GroupMembers>(int rank)>;
std::vector<int> run_ranks(int ranks, const GroupsOf& groups_of,
                           const std::function<void(int rank, ProcessGroups&)>& body) {
  int problem = 0;
  const launch::Listener listener = launch::bind_to("127.0.0.1", 0, /*listening=*/true, problem);
  REQUIRE(listener.fd.get() >= 0);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    try {
      comm_record::keep(64);
      {
        ProcessGroups groups(environment_of(rank, ranks, listener), "all", std::chrono::seconds(30));
        groups.add(groups_of(rank));
        groups.barrier();  // no rank ends before all have arrived
        body(rank, groups);
        groups.barrier();  // rank 0 serves the store
      }
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      _exit(1);
    }
  }
  std::vector<int> codes;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

// Returns the edges of each rank, in the global order.
GroupsOf edges_of(Edges edges) {
  std::sort(edges.begin(), edges.end());
  return [edges](int rank) {
    std::vector<GroupMembers> groups;
    for (const auto& [from, to] : edges)
      if (from == rank || to == rank) groups.push_back({edge_name(from, to), {from, to}});
    return groups;
  };
}

std::vector<int> all_zero(int ranks) { return std::vector<int>(static_cast<std::size_t>(ranks), 0); }

// Returns the message of the c10::DistError that `action` throws, or "".
std::string peer_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::DistError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

constexpr std::int64_t kLarge = 3'000'000;  // larger than the buffers of a socket

}  // namespace

TEST_CASE("ranks that send to each other at once receive the tensors, for all dtypes") {
  CHECK(run_ranks(2, edges_of({{0, 1}, {1, 0}}), [](int rank, ProcessGroups&) {
          const std::string out = edge_name(rank, 1 - rank), in = edge_name(1 - rank, rank);
          for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
            const auto of = [&](int sender) { return at::arange(kLarge).to(dtype).add_(sender + 1); };
            Tensor received_tensor = at::empty({kLarge}, dtype);
            Message sent = send(of(rank), out);  // keeps the only reference
            Message received = receive(received_tensor, in);
            require(sent.is_under_way() && received.is_under_way(), "a message begins with the call");
            received.wait();
            sent.wait();
            require(!sent.is_under_way() && !received.is_under_way(), "a message ends with the wait");
            require(at::equal(received_tensor, of(1 - rank)), "the tensor of the peer arrives");
            received.wait();  // does nothing
          }
        }) == all_zero(2));
}

TEST_CASE("messages of an edge keep their order under waits in any order") {
  constexpr std::int64_t kMessages = 40;
  CHECK(run_ranks(2, edges_of({{0, 1}}), [](int rank, ProcessGroups&) {
          const std::string edge = edge_name(0, 1);
          std::vector<Tensor> tensors;
          std::vector<Message> messages;
          for (std::int64_t i = 0; i < kMessages; ++i) {
            tensors.push_back(at::full({1 + i % 7 * 1000}, rank == 0 ? 1.0 * static_cast<double>(i) : -1.0));
            messages.push_back(rank == 0 ? send(tensors.back(), edge) : receive(tensors.back(), edge));
          }
          for (std::size_t i = messages.size(); i-- > 0;) messages[i].wait();
          for (std::int64_t i = 0; i < kMessages; ++i) {
            const Tensor& received_tensor = tensors[static_cast<std::size_t>(i)];
            require(received_tensor.eq(static_cast<double>(i)).all().item<bool>(), "the order is kept");
          }
        }) == all_zero(2));
}

TEST_CASE("three ranks in a ring each send before they receive") {
  CHECK(run_ranks(3, edges_of({{0, 1}, {1, 2}, {2, 0}}), [](int rank, ProcessGroups&) {
          const int next = (rank + 1) % 3, before = (rank + 2) % 3;
          for (int round = 0; round < 5; ++round) {
            Message sent = send(at::full({kLarge / 10}, rank + 10.0 * round), edge_name(rank, next));
            Tensor received_tensor = at::empty({kLarge / 10});
            receive(received_tensor, edge_name(before, rank)).wait();
            sent.wait();
            require(received_tensor.eq(before + 10.0 * round).all().item<bool>(),
                    "a message comes from the neighbour");
          }
        }) == all_zero(3));
}

TEST_CASE("parallel pipelines use the same names for their edges") {
  // Ranks 0 and 2 are one pipeline, 1 and 3 another.
  CHECK(
      run_ranks(
          4,
          [](int rank) -> std::vector<GroupMembers> {
            const std::int64_t pipeline = rank % 2;
            return {{edge_name(0, 1), {pipeline, pipeline + 2}}, {edge_name(1, 0), {pipeline + 2, pipeline}}};
          },
          [](int rank, ProcessGroups&) {
            const int place = rank / 2;
            Tensor received_tensor = at::empty({3});
            Message sent = send(at::full({3}, 1.0 * rank), edge_name(place, 1 - place));
            receive(received_tensor, edge_name(1 - place, place)).wait();
            sent.wait();
            require(received_tensor[0].item<double>() == (rank + 2) % 4, "a message stays in its pipeline");
          }) == all_zero(4));
}

TEST_CASE("a dead peer is an error for sender and receiver, and the record names the edge") {
  CHECK(run_ranks(3, edges_of({{0, 1}, {1, 2}}), [](int rank, ProcessGroups&) {
          if (rank == 1) _exit(3);
          if (rank == 0) {
            const Tensor tensor = at::full({kLarge}, 1.0);
            require(!peer_error([&] { send(tensor, edge_name(0, 1)).wait(); }).empty(), "a send notices");
          } else {
            Tensor tensor = at::empty({5});
            require(!peer_error([&] { receive(tensor, edge_name(1, 2)).wait(); }).empty(),
                    "a receive notices");
            require(comm_record::under_way().starts_with("receive of 5 Float in group pp_1_to_2"),
                    "the record has " + comm_record::under_way());
          }
          _exit(0);
        }) == std::vector<int>{0, 3, 0});
}

TEST_CASE("a peer that does not send in time is an error") {
  CHECK(run_ranks(2, edges_of({{0, 1}}), [](int rank, ProcessGroups& groups) {
          if (rank == 1) {
            groups.set_timeout(std::chrono::seconds(1));
            Tensor tensor = at::empty({5});
            const std::string error = peer_error([&] { receive(tensor, edge_name(0, 1)).wait(); });
            require(error.find(" 1000ms ") != std::string::npos, "the latest timeout counts: " + error);
            groups.set_timeout(std::chrono::seconds(30));
          }
          groups.broadcast_text("the timeout has passed", "", 1);
        }) == all_zero(2));
}

TEST_CASE("messages without a wait leave the processes and their other groups intact") {
  CHECK(run_ranks(2, edges_of({{0, 1}, {1, 0}}), [](int rank, ProcessGroups& groups) {
          Tensor received_tensor = at::empty({kLarge});
          static_cast<void>(send(at::full({kLarge}, 1.0), edge_name(rank, 1 - rank)));
          static_cast<void>(receive(received_tensor, edge_name(1 - rank, rank)));
          require(groups.all_gather(rank) == std::vector<std::int64_t>{0, 1}, "the group of all ranks works");
        }) == all_zero(2));
}

TEST_CASE("an edge has one sender, one receiver and contiguous tensors") {
  CHECK(run_ranks(2, edges_of({{1, 0}}), [](int rank, ProcessGroups&) {
          const auto refused = [](const auto& action) {
            try {
              static_cast<void>(action());
            } catch (const Error&) {
              return true;
            }
            return false;
          };
          Tensor tensor = at::empty({4, 4}), transposed = tensor.t();
          const std::string edge = edge_name(1, 0);
          if (rank == 0) require(refused([&] { return send(tensor, edge); }), "the receiver does not send");
          if (rank == 1)
            require(refused([&] { return receive(tensor, edge); }), "the sender does not receive");
          if (rank == 1) require(refused([&] { return send(transposed, edge); }), "a transposed tensor");
        }) == all_zero(2));
}

}  // namespace rondo
