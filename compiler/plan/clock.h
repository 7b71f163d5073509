// The clock of a schedule: a lane of compute that runs node after node, and lanes for started work.
// Each lane runs one item at a time, in the order of the starts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::ir {

// Links within a node, links between nodes, copies to the host, copies from the host.
enum class Lane : std::uint8_t { node_links, network, to_host, from_host };
constexpr std::size_t kLanes = 4;

// Seconds from the begin of the graph.
struct Span {
  double begin_s = 0, end_s = 0;
};

class Clock {
 public:
  double now_s() const { return now_s_; }
  void compute(double seconds) { now_s_ += seconds; }
  // Starts work now, or as soon as the lane is free.
  Span start(Lane lane, double seconds) {
    double& free_s = free_s_[static_cast<std::size_t>(lane)];
    const double begin_s = std::max(free_s, now_s_);
    return {begin_s, free_s = begin_s + seconds};
  }
  void wait_until(double end_s) { now_s_ = std::max(now_s_, end_s); }

 private:
  double now_s_ = 0;
  std::array<double, kLanes> free_s_{};
};

}  // namespace rondo::ir
