// Connects this node to node 0, and proves that both know the job's secret.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/options.h"
#include "launch/rendezvous/handshake.h"
#include "launch/rendezvous/net.h"
#include "support/stopwatch.h"

namespace rondo::launch {

class Connector {
 public:
  // `options` must outlive this.
  explicit Connector(const LaunchOptions& options) : options_(options) {}

  void add_polls(std::vector<pollfd>& polls) const;
  // Returns the connection once the proof is complete. Call it again until then: each call tries or
  // continues, and a failed attempt is followed by another. Throws Error(environment) if node 0
  // refuses this node, or after the join timeout; the message says why the last attempt failed.
  std::optional<Fd> connect();
  // Records why an established connection was lost, before the next call of connect().
  void lost(std::string why) { problem_ = std::move(why); }

 private:
  std::optional<Fd> greet();

  struct Greeting {
    Fd fd;
    Handshake proof;
  };
  const LaunchOptions& options_;
  const double began_s_ = now_s();
  double tried_s_ = 0;
  std::optional<Greeting> greeting_;  // until the proof is complete
  std::string problem_ = "nothing listens there";
};

}  // namespace rondo::launch
