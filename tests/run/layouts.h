// Divisions of the ranks of a run, in every combination; shared by the tests of layouts.
#pragma once

#include "tests/run/deepseek.h"

namespace rondo {

struct Layout {
  int replicate = 1, shard = 1, tensor = 1, experts = 1;
  std::string exchange = "static";  // if experts > 1

  int data() const { return replicate * shard; }
  int ranks() const { return data() * tensor; }
  std::string name() const {
    std::string words = fmt::format("ddp {}, fsdp {}, tp {}", replicate, shard, tensor);
    if (experts > 1) words += fmt::format(", ep {} {}", experts, exchange);
    return words;
  }
  Words flags() const {
    const Words dense = Grid{replicate, shard}.flags() +
                        Words{fmt::format("--parallelism.tensor_parallel_degree={}", tensor)};
    if (experts == 1) return dense;
    return dense + Words{fmt::format("--parallelism.expert_parallel_degree={}", experts),
                         "--parallelism.expert_parallel_comm_backend=" + exchange};
  }
};

// Numbers of heads that tp 2 and tp 4 divide.
inline const Words kFourHeads = {"--model.n_heads=4"};

}  // namespace rondo
