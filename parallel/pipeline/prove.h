// The proof that a lowered program runs to its end, before its first step: check(), the order of each edge,
// and a play of all ranks with rendezvous: a send and its receive meet, with no buffer anywhere. A program
// that passes also runs with any buffers, and where messages are sent and received beside compute: such an
// executor waits for less.
//
// Linear in the actions, whatever the program: an action is looked at twice at most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/pipeline/check.h"

namespace rondo::pipeline {

struct Edge {
  std::int32_t from = 0, to = 0;
  std::int64_t messages = 0;
};

struct Proof {
  std::int64_t actions = 0, messages = 0;
  std::int64_t events =
      0;  // of the play: actions that ran, and times that a rank came to a message too early
  std::vector<Edge> edges;  // by from, then to
  InFlight in_flight;
};

// `slots`: as in check(). Throws Error(config): a circle of ranks with its path, a message that is lost or
// out of order, and what check() finds.
Proof prove(const Program& lowered, std::int32_t slots = 0);

// Sends, receives and reductions added where a program has none, and its proof.
struct Proven {
  Program lowered;
  Proof proof;
};
// Throws Error(config): what check(), lower() and prove() throw.
Proven lower_and_prove(Program program, std::int32_t slots = 0);

// Its play alone, with no buffers, or with one for every message. "" or the path. REQUIRES: check() passed.
enum class Buffers { none, unlimited };
std::string find_deadlock(const Program& lowered, Buffers buffers, std::int64_t* events = nullptr);

}  // namespace rondo::pipeline
