// A rank of a pool that prints its process id and does what flags[RANK] says: "0" to succeed,
// another number to end with that code, "world" to end with the number of ranks, "die", or "wait"
// to wait forever.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "launch/rank_pool.h"

namespace {

int play(const std::vector<std::string>& flags) {
  std::printf("%d\n", getpid());
  const std::string& behavior = flags.at(std::stoul(std::getenv("RANK")));
  if (behavior == "die") std::abort();
  while (behavior == "wait") pause();
  if (behavior == "world") return std::stoi(std::getenv("WORLD_SIZE"));
  return std::stoi(behavior);
}

}  // namespace

int main(int, char** argv) { return rondo::launch::serve_runs(argv[2], &play); }
