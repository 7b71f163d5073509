// The matrix of tests/run/async_tensor_test.cpp: degrees, dtypes, policies, models and losses.
#include <catch2/generators/catch_generators_range.hpp>

#include "tests/run/async_tensor.h"
#include "tests/run/models.h"

namespace rondo {
namespace {

const std::string kNote = "collectives of activations run in 2 pieces";

TEST_CASE("pieces have the bits of whole collectives in every layout, dtype and policy of Llama 3") {
  const std::string dtype = GENERATE("float32", "bfloat16");
  const std::string policy = GENERATE("none", "default", "full");
  for (const auto& [ranks, tensor] : {std::pair{2, 2}, std::pair{4, 2}, std::pair{4, 4}})
    check_pieces(Place(), {ranks, tensor, 2, dtype, policy}, kNote);
}

TEST_CASE("pieces have the bits of whole collectives with two microbatches and documents") {
  check_pieces(Place(), {4, 2, 2, "bfloat16", "full"}, kNote,
               {"--training.global_batch_size=8", "--training.document_attention=true"});
}

TEST_CASE("pieces have the bits of whole collectives in Qwen3, with a head of two sizes") {
  const std::string dtype = GENERATE("float32", "bfloat16");
  const Place place(small_model("qwen3", "head_dim = 16\nffn_hidden_dim = 64\n").toml);
  for (const int tensor : {2, 4})
    check_pieces(place, {4, tensor, 2, dtype, "full"}, kNote, {"--model.dim=64"});
}

TEST_CASE("pieces have the bits of whole collectives in float8") {
  const std::string recipe = GENERATE("tensorwise", "rowwise");
  check_pieces(Place(), {4, 2, 2, "bfloat16", "full"}, kNote,
               {"--model.converters=float8", "--quantize.linear.float8.emulate=true",
                "--quantize.linear.float8.recipe_name=" + recipe});
}

// The loss in chunks keeps no logits, and the head is then no product of gathered rows.
TEST_CASE("pieces have the bits of whole collectives with the loss in chunks") {
  check_pieces(Place(), {2, 2, 2, "float32", "none"}, kNote,
               {"--compile.numerics=rounds", "--compile.loss_chunks=2", "--model.vocab_size=260"});
}

}  // namespace
}  // namespace rondo
