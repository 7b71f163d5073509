#include "tests/run/memory_test.h"

namespace rondo {
namespace {

const Words kSmall = {"--model.dim=256",
                      "--model.n_layers=6",
                      "--model.n_heads=16",
                      "--model.n_kv_heads=16",
                      "--model.multiple_of=256",
                      "--model.vocab_size=2048",
                      "--training.local_batch_size=2",
                      "--training.seq_len=256"};

TEST_CASE("a run takes what was planned for it, for every memory policy, with one rank") {
  check_policies(1, kSmall);
}
TEST_CASE("a run takes what was planned for it, for every memory policy, with two ranks") {
  check_policies(2, kSmall);
}

}  // namespace
}  // namespace rondo
