// One poll loop owns all state. Signals arrive through a signalfd, so there is no handler and
// nothing to lock. A round has a fixed order: signals, the coordinator, node 0's messages, the
// ranks, their output. Node 0's launcher talks to its own coordinator over a socket pair, so one
// node takes the same path as many. Signals are blocked before any rank starts. A scheduler signals
// every node, so a signal that another node has just forwarded is not delivered twice.
#include "launch/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "launch/connector.h"
#include "launch/coordinator.h"
#include "launch/failure.h"
#include "launch/guard.h"
#include "launch/log_folder.h"
#include "launch/output.h"
#include "launch/ranks.h"
#include "launch/rendezvous/messages.h"
#include "launch/spawn.h"
#include "support/error.h"
#include "support/files/temporary_folder.h"
#include "support/machine/machine.h"
#include "support/process_start.h"
#include "support/stopwatch.h"

namespace rondo::launch {
namespace {

constexpr double kMaxSleep_s = 0.5;
// A scheduler signals every node: within this time a signal is the one another node forwarded.
constexpr double kSameSignal_s = 1;
constexpr double kFinishWait_s = 2;  // time for the other launchers to read the finish message

// Throws for a missing program before any other node is contacted.
std::string program_path(const LaunchOptions& options) {
  if (options.runs_any_program) return find_program(options.program[0]);
  return find_program(program_folder() / "rondo");
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        private_folder_(make_temporary_folder("rondo-launch")),
        guard_(private_folder_),
        output_(options),
        log_folder_(options, private_folder_, output_),
        connector_(options),
        host_(options.local_addr.empty() ? host_name() : options.local_addr) {
    signal(SIGPIPE, SIG_IGN);
    sigset_t handled;
    sigemptyset(&handled);
    for (const int number : options.signals) sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, nullptr);
    signals_ = Fd(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    paths_.program = program_path(options);
    paths_.run_folder_file = private_folder_ + "/run_folder";
  }

  int run() {
    open_rendezvous();
    while (!finish_) poll_once();
    if (ranks_) ranks_->kill_all();
    if (!finish_->report.empty()) output_.say(finish_->report);
    if (coordinator_) leave();
    output_.finish();
    return finish_->code;
  }

 private:
  // One round of the loop.
  void poll_once() {
    std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0}};
    if (channel_ && !channel_->closed())
      polls.push_back(
          {channel_->fd(), static_cast<short>(POLLIN | (channel_->wants_to_write() ? POLLOUT : 0)), 0});
    connector_.add_polls(polls);
    if (coordinator_) coordinator_->add_polls(polls);
    if (ranks_) ranks_->add_polls(polls);
    output_.add_polls(polls);
    const double pause_s = coordinator_ ? coordinator_->pause_s() : 0;
    const double sleep_s = std::min(pause_s > 0 ? pause_s : kMaxSleep_s, options_.monitor_interval_s);
    poll(polls.data(), polls.size(), std::max(1, static_cast<int>(1000 * sleep_s)));
    read_signals();
    if (coordinator_) coordinator_->serve();
    exchange_messages();
    if (ranks_) reap_ranks();
    output_.serve();
  }

  // --- rendezvous ---

  void open_rendezvous() {
    if (options_.nodes == 1) return coordinate({});
    const Endpoint& endpoint = options_.rendezvous;
    const bool is_node_0 = options_.node_rank == 0;
    if (options_.node_rank && !is_node_0) return;
    int failure = 0;
    Listener listener = bind_to(endpoint.host, endpoint.port, true, failure);
    if (listener.fd) {
      if (listener.is_loopback && endpoint.host != "localhost" && endpoint.host.rfind("127.", 0) != 0)
        output_.say(fmt::format("{} is a loopback address on this machine, which no other machine can reach",
                                endpoint.host));
      if (!options_.has_own_secret && !listener.is_loopback)
        output_.say(
            fmt::format("no secret is set: anyone who can reach {}:{} and knows --rdzv-id can join; set "
                        "RONDO_RDZV_SECRET to the same text on all nodes",
                        endpoint.host, endpoint.port));
      return coordinate(std::move(listener));
    }
    if (!is_node_0) return;  // node 0 is another machine, or another launcher of this machine
    throw Error(ExitCode::environment,
                bind_problem(endpoint.host, endpoint.port, failure, "--master-port or --rdzv-endpoint",
                             "the rendezvous endpoint must be an address of node 0"));
  }

  void coordinate(Listener listener) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      throw Error(ExitCode::resources, std::string("socketpair: ") + std::strerror(errno));
    coordinator_.emplace(options_, std::move(listener), Fd(ends[0]));
    introduce(Fd(ends[1]));
  }

  void introduce(Fd fd) {
    channel_.emplace(std::move(fd));
    Join join;
    join.job = options_.run_id;
    join.host = host_;
    join.role = options_.role;
    join.nodes = options_.nodes;
    join.ranks = options_.ranks_per_node;
    join.node_rank = options_.node_rank.value_or(-1);
    join.pid = getpid();
    channel_->send(to_json(join));
  }

  // --- messages from node 0 ---

  void exchange_messages() {
    if (!channel_ || channel_->closed()) {
      if (ranks_) return;
      if (std::optional<Fd> node_0 = connector_.connect()) introduce(std::move(*node_0));
      return;
    }
    for (const Json& message : channel_->receive()) handle(message);
    channel_->flush();
    channel_->beat();
    if (!coordinator_ && channel_->silent_s() > options_.silence_timeout_s)
      channel_->close(fmt::format("it sent nothing for {:.0f} s", options_.silence_timeout_s));
    if (!channel_->closed() || finish_) return;
    connector_.lost(channel_->why_closed());
    if (ranks_) ranks_->terminate();
  }

  void handle(const Json& message) {
    const std::string type = text_field(message, "type", 32);
    if (type == "start") start(message);
    if (type == "stop" && ranks_ && integer_field(message, "generation", 0, INT_MAX) == generation_)
      ranks_->terminate();
    if (type == "say") output_.say(text_field(message, "text", 8192));
    if (type == "refused")
      throw Error(ExitCode::environment,
                  fmt::format("node 0 at {}:{} refused this node: {}", options_.rendezvous.host,
                              options_.rendezvous.port, text_field(message, "reason", 1000)));
    if (type == "finish") finish_ = to_finish(message);
    const auto signal = integer_field(message, "signal", 1, 64);
    if (type == "forward" && signal) {
      forwarded_[*signal] = now_s();
      deliver(static_cast<int>(*signal));
    }
  }

  void start(const Json& message) {
    const auto start = to_start(message);
    if (!start || start->first_rank + options_.ranks_per_node > start->world_size)
      return channel_->close("it sent an invalid start message");
    generation_ = start->generation;
    has_reported_ = has_ended_ = false;
    log_folder_.open(*start);
    paths_.logs = log_folder_.logs();
    paths_.errors = log_folder_.errors();
    attempt_began_s_ = file_time_now_s();
    ranks_.reset();
    ranks_.emplace(options_, *start, paths_, host_, coordinator_ ? coordinator_->take_master() : Fd(),
                   output_, guard_);
  }

  // --- ranks ---

  void reap_ranks() {
    ranks_->serve();
    if (ranks_->must_terminate() && !has_reported_) {
      has_reported_ = true;
      channel_->send({{"type", "failed"}, {"generation", generation_}});
      ranks_->terminate();
    }
    if (!ranks_->all_ended()) return;
    if (channel_->closed())
      finish_ =
          Finish{static_cast<int>(ExitCode::peer),
                 fmt::format("lost the launcher of node 0 at {}:{} ({}); the ranks of this node were stopped",
                             options_.rendezvous.host, options_.rendezvous.port, channel_->why_closed())};
    else if (!has_ended_)
      channel_->send(to_json(ranks_->ended()));
    has_ended_ = true;
  }

  void read_signals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (now_s() - forwarded_[signal] < kSameSignal_s) continue;
      if (!ranks_) {
        finish_ =
            Finish{128 + signal, fmt::format("ended by {} before the ranks were started", name_of(signal))};
        return;
      }
      channel_->send({{"type", "signalled"}, {"signal", signal}});
      deliver(signal);
    }
  }

  static std::string name_of(int signal) {
    Failure failure;
    failure.signal = signal;
    return cause_of(failure);
  }

  void deliver(int signal) {
    if (!ranks_) return;
    if (signal == SIGINT && ++interrupts_ == 2) {
      output_.say("interrupted twice: killing the ranks");
      ranks_->expect(SIGKILL);
      return ranks_->signal_all(SIGKILL);
    }
    ranks_->forward(signal);
  }

  // --- end ---

  // Node 0 records the end in the run folder and stays until the other launchers have read it.
  void leave() {
    if (interrupts_ >= 2) finish_->code = 128 + SIGINT;
    if (finish_->code != 0 && attempt_began_s_ > 0) record_failure();
    const double deadline = now_s() + kFinishWait_s;
    for (std::vector<pollfd> polls; !coordinator_->all_others_left() && now_s() < deadline; polls.clear()) {
      coordinator_->add_polls(polls);
      poll(polls.data(), polls.size(), 50);
      coordinator_->serve();
    }
  }

  void record_failure() {
    const std::string run_folder = run_folder_in(paths_.run_folder_file);
    if (run_folder.empty()) return;
    Failure failure = coordinator_->root_cause().value_or(Failure{});
    if (failure.code() != finish_->code) {
      failure.signal = finish_->code > 128 ? finish_->code - 128 : 0;
      failure.exit_code = failure.signal > 0 ? 0 : finish_->code;
      failure.time_s = wall_time_s();
      failure.message = finish_->report;
    }
    try {
      write_exit_json(run_folder, failure, generation_, attempt_began_s_, coordinator_->hang_culprit());
    } catch (const Error& error) {
      output_.say(error.what());
    }
  }

  const LaunchOptions& options_;
  const std::string private_folder_;
  Guard guard_;  // first: it cleans up after the others
  Output output_;
  LogFolder log_folder_;
  Connector connector_;
  const std::string host_;
  Fd signals_;
  LaunchPaths paths_;
  std::optional<Coordinator> coordinator_;  // on node 0
  std::optional<Channel> channel_;          // to the coordinator
  std::optional<Ranks> ranks_;
  std::optional<Finish> finish_;
  std::map<std::int64_t, double> forwarded_;  // by signal: when another node forwarded it
  double attempt_began_s_ = 0;                // on the clock that stamps files
  int generation_ = 0;
  int interrupts_ = 0;
  bool has_reported_ = false;  // this attempt's failure was sent to node 0
  bool has_ended_ = false;     // the end of this attempt's ranks was sent to node 0
};

}  // namespace

int run(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace rondo::launch
