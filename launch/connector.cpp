#include "launch/connector.h"

#include <fmt/format.h>

#include <utility>

#include "support/error.h"
#include "support/stopwatch.h"

namespace rondo::launch {
namespace {

constexpr double kRetryConnecting_s = 0.3;
constexpr int kConnectTimeout_ms = 1000;
constexpr double kGreetTimeout_s = 5;

}  // namespace

void Connector::add_polls(std::vector<pollfd>& polls) const {
  if (greeting_) polls.push_back({greeting_->fd.get(), POLLIN, 0});
}

std::optional<Fd> Connector::connect() {
  if (greeting_) return greet();
  if (now_s() - tried_s_ < kRetryConnecting_s) return std::nullopt;
  const Endpoint& node_0 = options_.rendezvous;
  if (now_s() - began_s_ > options_.join_timeout_s)
    throw Error(
        ExitCode::environment,
        fmt::format("node 0 of job \"{}\" did not answer at {}:{} within {} s: {}. Is its launcher running, "
                    "and is the port open? --rdzv-conf join_timeout=S allows more time",
                    options_.run_id, node_0.host, node_0.port, options_.join_timeout_s, problem_));
  Fd fd = connect_to(node_0.host, node_0.port, options_.local_addr, kConnectTimeout_ms, problem_);
  tried_s_ = now_s();
  if (fd) greeting_ = Greeting{std::move(fd), Handshake(Handshake::Side::node, options_.secret)};
  return std::nullopt;
}

std::optional<Fd> Connector::greet() {
  const Handshake::State state = greeting_->proof.go_on(greeting_->fd.get());
  if (state == Handshake::State::proved) {
    Fd fd = std::move(greeting_->fd);
    greeting_.reset();
    return fd;
  }
  if (greeting_->proof.was_refused())
    throw Error(
        ExitCode::environment,
        fmt::format("node 0 at {}:{} refused this node: another job, or another secret; --rdzv-id and "
                    "RONDO_RDZV_SECRET must be the same on all nodes",
                    options_.rendezvous.host, options_.rendezvous.port));
  if (state == Handshake::State::going_on && now_s() - tried_s_ < kGreetTimeout_s) return std::nullopt;
  problem_ = state == Handshake::State::failed ? greeting_->proof.problem()
                                               : "it did not answer the launcher's protocol";
  greeting_.reset();
  return std::nullopt;
}

}  // namespace rondo::launch
