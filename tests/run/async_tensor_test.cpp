// Tests collectives of activations that run in pieces with their products: the step has the bits of
// whole collectives, and both executors have the same. Pieces are requested, because the CPU gains
// nothing by them.
#include "tests/run/async_tensor.h"

namespace rondo {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("collectives of activations in pieces have the bits of whole ones") {
  check_pieces(Place(), {4, 2, 2, "bfloat16", "full"}, "22 collectives of activations run in 2 pieces");
}

}  // namespace
}  // namespace rondo
