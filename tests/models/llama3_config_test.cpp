#include "models/llama3_config.h"

#include <catch2/catch_test_macros.hpp>

#include "trainer/config/load.h"

namespace {

rondo::Llama3Config flavor(const std::string& name) {
  return rondo::model_config<rondo::Llama3Config>(rondo::load_config({"--model.flavor=" + name}));
}

// Embedding, head unless tied, and per layer four attention and three feed-forward matrices and two norms.
std::int64_t parameters(const rondo::Llama3Config& c) {
  const std::int64_t kv = c.n_kv_heads * c.head_dim();
  const std::int64_t layer = 2 * c.dim * c.dim + 2 * c.dim * kv + 3 * c.dim * c.ffn_hidden() + 2 * c.dim;
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
    CHECK(flavor(published.name).ffn_hidden() == published.hidden);
    CHECK(parameters(flavor(published.name)) == published.parameters);
  }
}
