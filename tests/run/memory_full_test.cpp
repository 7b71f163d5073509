#include "tests/run/memory_test.h"

namespace rondo {
namespace {

// A model of 134 million parameters.
const Words kLarger = {"--model.dim=768",        "--model.n_layers=12",          "--model.n_heads=12",
                       "--model.n_kv_heads=12",  "--model.multiple_of=256",      "--model.vocab_size=32000",
                       "--training.seq_len=128", "--training.local_batch_size=2"};

TEST_CASE("a run of 134 million parameters uses the planned memory, for every memory policy") {
  for (int ranks : {1, 2}) check_policies(ranks, kLarger);
}

}  // namespace
}  // namespace rondo
