// Each rank has a socket pair of messages. A request holds the run's flags, port, number and world
// size; the answer holds the exit code. A rank appends its output to a file in memory, which is
// emptied before each run. The worker gets its descriptors as numbers with commas: the control
// socket, then a socket and a file of output for each rank.
#include "launch/rank_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "launch/options.h"
#include "launch/spawn.h"
#include "support/error.h"
#include "support/flags/flag_values.h"
#include "support/machine/core_room.h"
#include "support/text/numbers.h"

namespace rondo::launch {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestMessage = 1 << 16, kMaxOutput = 1 << 16;
constexpr std::chrono::seconds kStart{120}, kAfterFailure{3};

// Returns the exit code in an answer to a run. The answer to a start has none.
int exit_code_in(const std::string& answer) {
  return answer.empty() ? -1 : json::parse(answer).value("exit_code", 0);
}

[[noreturn]] void refuse(const char* what) {
  throw Error(ExitCode::resources, fmt::format("cannot start ranks: {}: {}", what, std::strerror(errno)));
}

// Returns this process's end and the worker's.
std::pair<Fd, Fd> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) refuse("a pair of sockets");
  return {Fd(ends[0]), Fd(ends[1])};
}

bool send_json(int socket, const json& words) {
  const std::string text = words.dump();
  return send(socket, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
}

}  // namespace

void RankPool::Rank::tell(const std::string& words) const {
  if (send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL) != std::ssize(words))
    refuse("a rank reads no requests");
}

std::string RankPool::Rank::answer() const {
  char text[256];
  const ssize_t size = recv(socket.get(), text, sizeof text, 0);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
}

void RankPool::Rank::forget_output() const {
  if (ftruncate(output_file.get(), 0) != 0) refuse("a file in memory");
}

std::string RankPool::Rank::output() const {
  std::string text(kMaxOutput, '\0');
  const ssize_t size = pread(output_file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

RankPool::RankPool(const std::string& worker, int max_ranks) {
  std::vector<Fd> theirs;
  const auto connect = [&] {
    auto [ours, other] = socket_pair();
    theirs.push_back(std::move(other));
    return std::move(ours);
  };
  parent_.control = connect();
  Spawn child;
  child.inherited_fds = {theirs[0].get()};
  for (int rank = 0; rank < max_ranks; ++rank) {
    ranks_.push_back({connect(), Fd(memfd_create("rank", MFD_CLOEXEC))});
    const int output = ranks_.back().output_file.get();
    if (output < 0 || fcntl(output, F_SETFL, O_APPEND) != 0) refuse("a file in memory");
    child.inherited_fds.insert(child.inherited_fds.end(), {theirs.back().get(), output});
  }
  child.program = {worker, "play", fmt::format("{}", fmt::join(child.inherited_fds, ","))};
  std::vector<std::string> variables = {"GROUP_RANK=0", "MASTER_ADDR=127.0.0.1"};
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    variables.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, core_room().cores / max_ranks)));
  child.environment = environment_with(variables);
  child.out_fd = child.error_fd = ranks_[0].output_file.get();
  parent_.pid = spawn(child);
  theirs.clear();  // so that the end of a rank closes its socket
  const std::vector<Answer> hellos = answers(ranks_.size(), kStart);
  for (const Answer& hello : hellos) {
    if (hello.text.empty() || std::ssize(hellos) < max_ranks)
      throw Error(ExitCode::environment, worker + " does not start: " + ranks_[hello.rank].output());
    if (hello.rank == 0) port_ = std::to_string(json::parse(hello.text).at("port").get<int>());
  }
  if (hellos.empty()) throw Error(ExitCode::environment, worker + " does not start in time");
}

RankPool::Parent::~Parent() {
  control.reset();
  if (pid != 0) waitpid(pid, nullptr, 0);
}

PlayedRun RankPool::play(int ranks, const std::vector<std::string>& flags, std::chrono::seconds timeout) {
  const json run = {{"port", port_},
                    {"id", std::to_string(++runs_)},
                    {"world_size", std::to_string(ranks)},
                    {"flags", flags}};
  const std::span playing(ranks_.data(), static_cast<std::size_t>(ranks));
  for (const Rank& rank : playing) {
    rank.forget_output();
    rank.tell(run.dump());
  }
  PlayedRun played;
  const std::vector<Answer> ended = answers(playing.size(), timeout);
  for (const Answer& answer : ended)
    if (played.exit_code == 0) played.exit_code = exit_code_in(answer.text);
  played.timed_out = played.exit_code == 0 && ended.size() < playing.size();
  for (const Rank& rank : playing) played.output += rank.output();
  return played;
}

std::vector<RankPool::Answer> RankPool::answers(std::size_t count, std::chrono::seconds timeout) const {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline = Clock::now() + timeout;
  std::vector<pollfd> sockets;
  for (std::size_t rank = 0; rank < count; ++rank) sockets.push_back({ranks_[rank].socket.get(), POLLIN, 0});
  std::vector<Answer> arrived;
  while (arrived.size() < count) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const int ready =
        poll(sockets.data(), sockets.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      if (sockets[rank].revents == 0) continue;
      arrived.push_back({rank, ranks_[rank].answer()});
      sockets[rank].fd = -1;  // answered
      if (exit_code_in(arrived.back().text) != 0) deadline = std::min(deadline, Clock::now() + kAfterFailure);
    }
  }
  return arrived;
}

namespace {

int serve_rank(int socket, int (*train)(const std::vector<std::string>& flags)) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  };
  int problem = 0;
  const Listener listener = bind_to("127.0.0.1", 0, /*listening=*/true, problem);
  if (!send_json(socket, {{"port", listener.port}})) return 1;
  std::string text(kLongestMessage, '\0');
  for (ssize_t size; (size = recv(socket, text.data(), text.size(), 0)) > 0;) {
    const json run = json::parse(text.substr(0, static_cast<std::size_t>(size)));
    set("MASTER_PORT", run.at("port"));
    set("TORCHELASTIC_RUN_ID", run.at("id"));
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set(name, run.at("world_size"));
    // the store closes its copy
    set("RONDO_MASTER_LISTEN_FD", std::to_string(dup(listener.fd.get())));
    const int code = train(run.at("flags"));
    std::fflush(nullptr);
    if (!send_json(socket, {{"exit_code", code}})) return 1;
  }
  return 0;
}

// Turns the child into a rank: its variables, its streams, and no descriptor of another rank.
void become_rank(std::size_t rank, const std::vector<int>& descriptors, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before the line above
  for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, std::to_string(rank).c_str(), /*overwrite=*/1);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(descriptors[2 * rank + 2], stream);
  for (std::size_t i = 0; i < descriptors.size(); ++i)
    if (i != 2 * rank + 1) close(descriptors[i]);
}

}  // namespace

int serve_runs(const std::string& descriptors, int (*train)(const std::vector<std::string>& flags)) {
  std::vector<int> fds;
  for (const std::string& word : split(descriptors, ',')) {
    const auto fd = number_in<int>(word, 0, 1 << 20);
    if (!fd) break;
    fds.push_back(*fd);
  }
  if (fds.size() < 3 || fds.size() % 2 == 0)
    throw Error(ExitCode::usage, "rondo-worker play is started by rondo prove");
  const pid_t parent = getpid();
  std::vector<pid_t> ranks;
  for (std::size_t rank = 0; 2 * rank + 2 < fds.size(); ++rank) {
    const pid_t pid = fork();
    if (pid < 0) refuse("fork");
    if (pid == 0) {
      become_rank(rank, fds, parent);
      return serve_rank(fds[2 * rank + 1], train);
    }
    ranks.push_back(pid);
  }
  for (std::size_t i = 1; i < fds.size(); ++i) close(fds[i]);
  char end;
  while (read(fds[0], &end, 1) < 0 && errno == EINTR) {
  }  // until the pool closes its end
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  for (const pid_t rank : ranks) waitpid(rank, nullptr, 0);
  return 0;
}

}  // namespace rondo::launch
