#include "tests/run/rank_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "parallel/launch/options.h"
#include "parallel/launch/spawn.h"
#include "parallel/rendezvous/net.h"
#include "tests/trainer/observe/metrics/scratch.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kTimeout{300};  // against a hang, far above what a run takes

// One process, and the socket to it.
class PoolRank {
 public:
  PoolRank(int rank, int ranks) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    socket_ = launch::Fd(ends[0]);
    const launch::Fd theirs(ends[1]);
    launch::Spawn child;
    child.program = {RONDO_BINARY_DIR "/tests/pool_rank", std::to_string(theirs.get())};
    child.environment = launch::environment_with(
        {fmt::format("RANK={}", rank), fmt::format("LOCAL_RANK={}", rank),
         fmt::format("WORLD_SIZE={}", ranks), fmt::format("LOCAL_WORLD_SIZE={}", ranks), "GROUP_RANK=0",
         "MASTER_ADDR=127.0.0.1",
         fmt::format("OMP_NUM_THREADS={}", std::max(1, launch::available_cores() / ranks))});
    child.inherited_fds = {theirs.get()};
    pid_ = launch::spawn(child);
  }
  PoolRank(PoolRank&& other) noexcept
      : socket_(std::move(other.socket_)), pid_(std::exchange(other.pid_, 0)) {}
  ~PoolRank() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  int socket() const { return socket_.get(); }
  void tell(const nlohmann::json& words) const {
    const std::string text = words.dump();
    REQUIRE(send(socket(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text));
  }
  // Null: it died. REQUIRES: something can be read.
  nlohmann::json answer() const {
    char text[256];
    const ssize_t size = recv(socket(), text, sizeof text, 0);
    return size > 0 ? nlohmann::json::parse(text, text + size) : nlohmann::json();
  }

 private:
  launch::Fd socket_;
  pid_t pid_ = 0;
};

// All ranks of one size of world.
class RankPool {
 public:
  explicit RankPool(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.emplace_back(rank, ranks);
    const std::vector<nlohmann::json> hellos = answers();
    REQUIRE(hellos.size() == ranks_.size());
    port_ = std::to_string(hellos[0].at("port").get<int>());
  }

  ProgramResult play(const std::vector<std::string>& flags) {
    const Scratch scratch;
    const auto output = [&](std::size_t rank) { return (scratch / std::to_string(rank)).string(); };
    const std::string id = std::to_string(++runs_);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      ranks_[rank].tell({{"port", port_}, {"id", id}, {"output", output(rank)}, {"flags", flags}});
    ProgramResult result;
    result.started = true;
    const std::vector<nlohmann::json> codes = answers();
    result.timed_out = codes.size() < ranks_.size();
    for (const nlohmann::json& code : codes)
      if (result.exit_code == 0) result.exit_code = code.is_null() ? -1 : code.at("exit_code").get<int>();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (std::filesystem::exists(output(rank))) result.output += text_of(output(rank));
    return result;
  }

 private:
  // One of each rank, in the order of ranks; fewer where the time is over. After a rank that failed the
  // others get a moment to say what they lost.
  std::vector<nlohmann::json> answers() {
    std::vector<nlohmann::json> found;
    const Clock::time_point deadline = Clock::now() + kTimeout;
    for (const PoolRank& rank : ranks_) {
      pollfd waited{rank.socket(), POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) break;
      found.push_back(rank.answer());
    }
    return found;
  }

  std::vector<PoolRank> ranks_;
  std::string port_;
  int runs_ = 0;
};

}  // namespace

ProgramResult play(int ranks, const std::vector<std::string>& flags) {
  static std::map<int, RankPool> pools;
  const auto pool = pools.try_emplace(ranks, ranks).first;
  ProgramResult result = pool->second.play(flags);
  if (result.timed_out || result.exit_code != 0) pools.erase(pool);
  return result;
}

}  // namespace rondo
