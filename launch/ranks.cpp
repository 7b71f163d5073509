// Detects a dead rank with WNOWAIT and kills its process group while the zombie still holds the
// number. Only then is the rank reaped, because the number may be reused afterwards. A rank that
// fails with the exit code for a lost peer does not terminate the others at once: the true cause
// may fail a moment later. A rank that ends after the order to end is no cause, unless its error
// file reports an earlier failure.
#include "launch/ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "launch/failure.h"
#include "launch/rank_status.h"
#include "launch/spawn.h"
#include "support/error.h"
#include "support/machine/core_room.h"
#include "support/stopwatch.h"

namespace rondo::launch {
namespace {

// Ranks that see a peer's connection break may end before the peer itself. After a first failure
// with the exit code for a lost peer, the launcher waits this long for the cause.
constexpr double kCauseWait_s = 0.25;

constexpr double kLookEvery_s = 2;  // at ranks that may be stopped

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

Ranks::Ranks(const LaunchOptions& options, const Start& start, const LaunchPaths& paths,
             const std::string& host, Fd master, Output& output, Guard& guard)
    : options_(options),
      start_(start),
      host_(host),
      run_folder_file_(paths.run_folder_file),
      output_(output),
      guard_(guard),
      ranks_(static_cast<std::size_t>(options.ranks_per_node)) {
  try {
    for (int i = 0; i < options.ranks_per_node; ++i) start_rank(i, paths, i == 0 ? master.get() : -1);
  } catch (...) {
    kill_all();
    throw;
  }
}

Ranks::~Ranks() { kill_all(); }

std::vector<std::string> Ranks::environment(int local_rank, const Rank& state, int master_fd) const {
  const int rank = start_.first_rank + local_rank;
  const auto set = [](const char* name, const auto& value) { return fmt::format("{}={}", name, value); };
  std::vector<std::string> variables = {
      set("LOCAL_RANK", local_rank),
      set("RANK", rank),
      set("GROUP_RANK", start_.node),
      set("ROLE_RANK", start_.first_role_rank + local_rank),
      set("ROLE_NAME", options_.role),
      set("LOCAL_WORLD_SIZE", options_.ranks_per_node),
      set("WORLD_SIZE", start_.world_size),
      set("GROUP_WORLD_SIZE", start_.nodes),
      set("ROLE_WORLD_SIZE", start_.role_world_size),
      set("MASTER_ADDR", start_.master_addr),
      set("MASTER_PORT", start_.master_port),
      set("TORCHELASTIC_RESTART_COUNT", start_.generation),
      set("TORCHELASTIC_MAX_RESTARTS", options_.max_restarts),
      set("TORCHELASTIC_RUN_ID", options_.run_id),
      set("TORCHELASTIC_USE_AGENT_STORE", "False"),  // rank 0 hosts the store
      set("TORCHELASTIC_ERROR_FILE", state.error_file),
      set("TORCHELASTIC_SIGNALS_TO_HANDLE", options_.signal_names),
      set("RONDO_RUN_FOLDER_FILE", run_folder_file_),
      set("RONDO_PROGRESS_FD", state.page->fd())};
  if (std::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING") == nullptr)
    variables.push_back("TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    variables.push_back(set("OMP_NUM_THREADS", std::max(1, core_room().cores / options_.ranks_per_node)));
  variables.push_back(set("RONDO_STORE_TOKEN", start_.store_token));
  if (master_fd >= 0) variables.push_back(set("RONDO_MASTER_LISTEN_FD", master_fd));
  std::vector<std::string> all = environment_with(variables);
  std::erase_if(all, [&](const std::string& variable) {
    return (master_fd < 0 && variable.starts_with("RONDO_MASTER_LISTEN_FD=")) ||
           variable.starts_with("RONDO_RDZV_SECRET=");
  });
  return all;
}

void Ranks::start_rank(int local_rank, const LaunchPaths& paths, int master_fd) {
  Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  const std::string folder = fmt::format("/attempt_{}/{}", start_.generation, local_rank);
  std::error_code ignored;
  std::filesystem::create_directories(paths.errors + folder, ignored);
  rank.error_file = paths.errors + folder + "/error.json";
  std::filesystem::remove(rank.error_file, ignored);
  const int shown = options_.local_ranks_filter.empty()
                        ? start_.world_size
                        : static_cast<int>(options_.local_ranks_filter.size());
  rank.streams = output_.open(local_rank, start_.first_rank + local_rank, shown, paths.logs + folder);
  Spawn child;
  child.program = options_.program;
  if (!options_.runs_any_program) child.program.insert(child.program.begin(), "");
  child.program[0] = paths.program;
  rank.page = std::make_unique<progress::Page>();
  rank.moved_s = now_s();
  child.environment = environment(local_rank, rank, master_fd);
  child.out_fd = rank.streams.child_fds[0].get();
  child.error_fd = rank.streams.child_fds[1].get();
  child.inherited_fds = {rank.page->fd()};
  if (master_fd >= 0) child.inherited_fds.push_back(master_fd);
  rank.pid = spawn(child);
  guard_.watch(rank.pid);
  for (Fd& fd : rank.streams.child_fds) fd.reset();
  rank.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, rank.pid, 0)));
  if (!rank.pidfd)
    throw Error(ExitCode::resources,
                fmt::format("cannot watch rank {}: {}; Rondo needs Linux 5.3, and room in "
                            "`ulimit -n`",
                            start_.first_rank + local_rank, std::strerror(errno)));
}

void Ranks::add_polls(std::vector<pollfd>& polls) const {
  for (const Rank& rank : ranks_) {
    if (!rank.status) polls.push_back({rank.pidfd.get(), POLLIN, 0});
    for (const auto& forwarder : rank.streams.forwarders)
      if (forwarder && forwarder->may_read()) polls.push_back({forwarder->fd(), POLLIN, 0});
  }
}

void Ranks::read_progress() {
  for (Rank& rank : ranks_) {
    if (rank.notes == rank.page->notes()) continue;
    rank.notes = rank.page->notes();
    rank.moved_s = now_s();
  }
}

std::vector<RankStatus> Ranks::statuses() const {
  std::vector<RankStatus> statuses;
  for (int i = 0; i < options_.ranks_per_node; ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    if (const auto seen = rank.page->seen())
      statuses.push_back(
          rank_status_of(start_.first_rank + i, rank.pid, rank.status == 0, *seen, now_s() - rank.moved_s));
  }
  sort_by_progress(statuses);
  if (statuses.size() > 2) statuses.erase(statuses.begin() + 1, statuses.end() - 1);
  return statuses;
}

void Ranks::serve() {
  read_progress();
  for (Rank& rank : ranks_) {
    for (const auto& forwarder : rank.streams.forwarders)
      if (forwarder && forwarder->may_read()) forwarder->read_some();
    if (!rank.status) reap(rank);
  }
  tell_of_stopped();
  if (terminated_s_ && now_s() - *terminated_s_ >= options_.shutdown_grace_s) signal_all(SIGKILL);
  if (forwarded_s_ && now_s() - *forwarded_s_ >= options_.signal_grace_s) kill_remaining();
}

// Says once that all ranks that are left on this node are stopped: none of them can say so.
void Ranks::tell_of_stopped() {
  if (told_of_stopped_ || now_s() - looked_s_ < kLookEvery_s) return;
  looked_s_ = now_s();
  std::string stopped;
  for (int i = 0; i < options_.ranks_per_node; ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    if (rank.status) continue;
    if (!is_stopped(rank.pid)) return;
    if (stopped.empty()) stopped = fmt::format("rank {} (pid {})", start_.first_rank + i, rank.pid);
  }
  if (stopped.empty()) return;
  told_of_stopped_ = true;
  output_.say(stopped +
              " is stopped by a signal or a debugger, and no other rank of this node is running; "
              "`kill -CONT` with that pid continues it");
}

// Kills ranks that are still alive long after a signal: they hang, are stopped or ignore it.
void Ranks::kill_remaining() {
  forwarded_s_.reset();
  std::string remaining;
  for (int i = 0; i < options_.ranks_per_node; ++i)
    if (!ranks_[static_cast<std::size_t>(i)].status)
      remaining += fmt::format("{}{}", remaining.empty() ? "" : ", ", start_.first_rank + i);
  if (remaining.empty()) return;
  output_.say(fmt::format("killing rank {}: it did not end within {} s of the signal (--shutdown-grace)",
                          remaining, options_.signal_grace_s));
  expect(SIGKILL);
  signal_all(SIGKILL);
}

// A rank's process group ends with it. The group is killed while the zombie still holds its number.
void Ranks::reap(Rank& rank) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return;
  rank.ended_s = wall_time_s();
  rank.was_terminated = terminated_s_.has_value();
  kill(-rank.pid, SIGKILL);
  int status = 0;
  while (waitpid(rank.pid, &status, 0) < 0 && errno == EINTR) {
  }
  guard_.forget(rank.pid);
  rank.status = status;
  for (const auto& forwarder : rank.streams.forwarders)
    if (forwarder) forwarder->drain();
  if (!is_failure(rank) || first_failed_s_) return;
  first_failed_s_ = now_s();
  if (!terminated_s_) statuses_ = statuses();
}

void Ranks::signal_all(int signal) {
  for (const Rank& rank : ranks_)
    if (rank.pid > 0 && !rank.status) kill(-rank.pid, signal);
}

// Programs other than Rondo may use USR1 and USR2 for something other than a request to end.
void Ranks::forward(int signal) {
  expect(signal);
  signal_all(signal);
  signal_all(SIGCONT);  // a stopped process receives no other signal
  const bool requests_end = (signal != SIGUSR1 && signal != SIGUSR2) || !options_.runs_any_program;
  if (requests_end && !forwarded_s_) forwarded_s_ = now_s();
}

void Ranks::terminate() {
  if (terminated_s_) return;
  if (!first_failed_s_) statuses_ = statuses();  // for a failure on another node
  terminated_s_ = now_s();
  terminated_wall_s_ = wall_time_s();
  signal_all(SIGTERM);
  signal_all(SIGCONT);  // a stopped process does not receive SIGTERM
}

void Ranks::kill_all() {
  signal_all(SIGKILL);
  for (Rank& rank : ranks_)
    if (rank.pid > 0 && !rank.status) {
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOWAIT);
      reap(rank);
    }
}

bool Ranks::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.status.has_value(); });
}

bool Ranks::is_failure(const Rank& rank) const {
  if (!rank.status || *rank.status == 0) return false;
  const int code = exit_code_of(*rank.status);
  const bool was_expected =
      std::any_of(expected_.begin(), expected_.end(), [&](int signal) { return code == 128 + signal; });
  return code != static_cast<int>(ExitCode::requeue) && !was_expected;
}

bool Ranks::must_terminate() const {
  if (terminated_s_ || !first_failed_s_) return false;
  const bool only_lost_peers = std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return !is_failure(rank) || exit_code_of(*rank.status) == static_cast<int>(ExitCode::peer);
  });
  return !only_lost_peers || all_ended() || now_s() - *first_failed_s_ > kCauseWait_s;
}

Failure Ranks::failure_of(int local_rank) const {
  const Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  Failure failure;
  failure.rank = start_.first_rank + local_rank;
  failure.local_rank = local_rank;
  failure.node = start_.node;
  failure.host = host_;
  failure.pid = rank.pid;
  failure.time_s = rank.ended_s;
  if (WIFSIGNALED(*rank.status))
    failure.signal = WTERMSIG(*rank.status);
  else
    failure.exit_code = WEXITSTATUS(*rank.status);
  if (const auto seen = rank.page->seen()) {
    failure.step = seen->step;
    failure.saved = seen->saved;
  }
  failure.log = rank.streams.error_log;
  const auto report = read_error_file(rank.error_file);
  failure.message = report ? report->message : rank.streams.last_error_line();
  if (!report || report->time_s <= 0) return failure;
  // Whole seconds are rounded down: the failure was before the next second.
  const bool is_whole = report->time_s == static_cast<double>(static_cast<std::int64_t>(report->time_s));
  failure.time_s = std::min(failure.time_s, is_whole ? report->time_s + 1 : report->time_s);
  // the launcher's SIGTERM came before its own end
  if (rank.was_terminated && report->exit_code > 0) {
    failure.signal = 0;
    failure.exit_code = report->exit_code;
  }
  return failure;
}

// A rank that ended after the order to end is no cause, unless it reported a failure before the
// order.
std::optional<Failure> Ranks::first_failure() const {
  const auto hang_culprit = find_hang_culprit(statuses_);
  std::optional<Failure> first;
  for (int i = 0; i < options_.ranks_per_node; ++i) {
    const Rank& rank = ranks_[static_cast<std::size_t>(i)];
    if (!is_failure(rank)) continue;
    const Failure failure = failure_of(i);
    if (rank.was_terminated && failure.time_s >= terminated_wall_s_) continue;
    if (!first || is_likelier_cause(failure, *first, hang_culprit)) first = failure;
  }
  return first;
}

Ended Ranks::ended() const {
  Ended ended{.generation = start_.generation, .first = first_failure(), .codes = {}, .statuses = statuses_};
  for (const Rank& rank : ranks_) ended.codes.push_back(exit_code_of(*rank.status));
  return ended;
}

}  // namespace rondo::launch
