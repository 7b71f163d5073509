#include <catch2/catch_test_macros.hpp>

#include "config/load.h"
#include "models/llama3/llama3.h"

namespace {

rondo::Llama3Config flavor(const std::string& name) {
  return rondo::from_values<rondo::Llama3Config>(rondo::load_config({"--model.flavor=" + name}).model.sizes);
}

// Embedding, head unless tied, and per layer four attention and three feed-forward matrices and two
// norms.
std::int64_t parameters(const rondo::Llama3Config& c) {
  const std::int64_t kv = c.n_kv_heads * c.head_width();
  const std::int64_t layer = 2 * c.dim * c.dim + 2 * c.dim * kv + 3 * c.dim * c.ffn_width() + 2 * c.dim;
  return c.vocab_size * c.dim * (c.tie_embeddings ? 1 : 2) + c.n_layers * layer + c.dim;
}

}  // namespace

TEST_CASE("the flavors of Llama 3 have the published feed-forward widths and parameter counts") {
  struct Published {
    std::string name;
    std::int64_t hidden, parameters;
  };
  const std::vector<Published> all = {{"debugmodel", 768, 6'163'712}, {"1B", 8192, 1'235'814'400},
                                      {"3B", 8192, 3'212'749'824},    {"8B", 14336, 8'030'261'248},
                                      {"70B", 28672, 70'553'706'496}, {"405B", 53248, 405'853'388'800}};
  for (const Published& published : all) {
    INFO(published.name);
    CHECK(flavor(published.name).ffn_width() == published.hidden);
    CHECK(parameters(flavor(published.name)) == published.parameters);
  }
}

TEST_CASE("widths that are given count, and widths that are not follow from dim") {
  rondo::Llama3Config c;
  CHECK(c.head_width() == 16);
  CHECK(c.ffn_width() == 768);
  c.head_dim = 24, c.ffn_hidden_dim = 345;
  CHECK(c.head_width() == 24);
  CHECK(c.ffn_width() == 345);
}

TEST_CASE("odd head counts, one key head and an odd vocabulary are good sizes") {
  rondo::Llama3Config c;
  c.dim = 30, c.n_heads = 5, c.n_kv_heads = 1, c.vocab_size = 131;
  CHECK(c.problems().empty());
  c.n_heads = c.n_kv_heads = 3;
  CHECK(c.problems().empty());
}

TEST_CASE("a dim that the heads do not divide is good where heads have a width of their own") {
  rondo::Llama3Config c;
  c.dim = 32, c.n_heads = c.n_kv_heads = 3;
  REQUIRE(c.problems().size() == 1);
  CHECK(c.problems()[0].rule ==
        "model.dim must be a multiple of model.n_heads, and 32 = 3 * 10 + 2 (model.head_dim gives heads a "
        "width of their own)");
  c.head_dim = 8;
  CHECK(c.problems().empty());
}

TEST_CASE("a head of odd width is refused, given or derived") {
  rondo::Llama3Config c;
  c.head_dim = 7;
  REQUIRE(c.problems().size() == 1);
  CHECK(c.problems()[0].keys == std::vector<std::string>{"head_dim"});
  CHECK(c.problems()[0].rule == "model.head_dim must be even: rotary embedding turns pairs");
  c.head_dim = 0, c.dim = 21, c.n_heads = c.n_kv_heads = 3;
  REQUIRE(c.problems().size() == 1);
  CHECK(c.problems()[0].rule ==
        "model.dim / model.n_heads = 21 / 3 = 7 must be even: rotary embedding turns pairs");
}
