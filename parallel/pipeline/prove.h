// Proves, before the first step, that a lowered program runs to its end. Three parts: check(), the
// order of messages on each edge, and a simulation of all ranks where a send and its receive
// rendezvous, without buffers. A program that passes also runs with any buffers, and with messages
// that overlap compute, since such executors wait for less.
//
// Linear in the number of actions for every program: each action is examined at most twice.
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
  std::int64_t events = 0;  // of the simulation: actions that ran, and blocked attempts
  std::vector<Edge> edges;  // sorted by from, then to
  InFlight in_flight;
};

// Proves a program. `slots` is as in check(). Throws Error(config) for a cycle of ranks, for a
// message that is lost or out of order, and for what check() finds.
Proof prove(const Program& lowered, std::int32_t slots = 0);

// A program with sends, receives and reductions, and its proof.
struct Proven {
  Program lowered;
  Proof proof;
};
// Lowers a program without messages, and proves it. Throws what check(), lower() and prove() throw.
Proven lower_and_prove(Program program, std::int32_t slots = 0);

// Runs only the simulation, without buffers or with one for every message. Returns "" or the cycle.
// Stores the number of events. REQUIRES: check() passed.
enum class Buffers { none, unlimited };
std::string find_deadlock(const Program& lowered, Buffers buffers, std::int64_t* events = nullptr);

}  // namespace rondo::pipeline
