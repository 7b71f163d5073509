// A rank of a pool that plays what its flags say: those of rank R are flags[R], "0" to end well, another
// number to end with that code, "die", or "wait" for somebody who never comes.
#include <unistd.h>

#include <cstdlib>

#include "launch/rank_pool.h"

namespace {

int play(const std::vector<std::string>& flags) {
  const std::string& mine = flags.at(std::stoul(std::getenv("RANK")));
  if (mine == "die") std::abort();
  while (mine == "wait") pause();
  return std::stoi(mine);
}

}  // namespace

int main(int, char** argv) { return rondo::launch::serve_runs(std::stoi(argv[2]), &play); }
