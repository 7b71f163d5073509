// Which linear layers multiply in float8, and what is refused.
#include "config/derived/float8.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <iterator>

#include "config/derived/layout.h"
#include "tests/config/config_texts.h"

using Catch::Matchers::ContainsSubstring;
using rondo::float8_expert_summary;
using rondo::float8_summary;
using rondo::float8_warnings;
using rondo::load_config;
using rondo::load_text;
using rondo::message_of;

namespace {

const std::string kFloat8 = "model.converters = [\"float8\"]\nquantize.linear.float8.emulate = true\n";

std::string recipe(const std::string& name) {
  return kFloat8 + "quantize.linear.float8.recipe_name = \"" + name + "\"\n";
}

}  // namespace

TEST_CASE("float8 is for every linear layer, but for routers, embeddings and experts") {
  CHECK(float8_summary(load_text("")).empty());
  CHECK(float8_summary(load_text(kFloat8)) == "float8: tensorwise, emulated, 43 of 43 linear layers");
  const std::string deepseek = kFloat8 + "model.name = \"deepseek_v3\"\n";
  const auto weights = rondo::float8_weights(load_text(deepseek));
  CHECK(weights.contains("layers.1.moe.shared_experts.w2.weight"));
  CHECK_FALSE(weights.contains("layers.1.moe.router.gate.weight"));
  CHECK_FALSE(weights.contains("layers.1.moe.experts.w1.weight"));
  CHECK_FALSE(weights.contains("tok_embeddings.weight"));
  CHECK(weights.contains("output.weight"));
}

TEST_CASE(
    "modules that are named, of other sizes, or too small to be faster keep their precision, and are told") {
  CHECK(
      float8_summary(
          load_text(recipe("rowwise") + "quantize.linear.float8.filter_fqns = [\"output\", \"wk\"]\n")) ==
      "float8: rowwise, emulated, 36 of 43 linear layers; not layers.0.attention.wk, layers.1.attention.wk, "
      "layers.2.attention.wk and 4 more (named by quantize.linear.float8.filter_fqns)");
  CHECK_THAT(float8_summary(load_text(recipe("blockwise") + "model.vocab_size = 2064\n")),
             ContainsSubstring("42 of 43 linear layers; not output (sizes are not multiples of 128)"));
  const auto large = [](const std::string& name) {
    return float8_summary(load_text(recipe(name) +
                                    "model.flavor = \"8B\"\nquantize.linear.float8.filter_fqns = "
                                    "[\"auto_filter_small_kn\"]\n"));
  };
  CHECK_THAT(large("tensorwise"), ContainsSubstring("161 of 225"));  // but keys and values
  CHECK_THAT(large("rowwise"), ContainsSubstring("(too small to be faster)"));
}

TEST_CASE("a float8 filter that names no module gets a warning with the nearest name") {
  const auto warning = [](const std::string& name) {
    const auto warnings = float8_warnings(
        load_text(kFloat8 + "quantize.linear.float8.filter_fqns = [\"" + name + "\", \"attention.wq\"]\n"));
    return warnings.size() == 1 ? warnings[0] : std::to_string(warnings.size());
  };
  CHECK_THAT(warning("outptu"), ContainsSubstring("\"outptu\" names no module of this model") &&
                                    ContainsSubstring("(did you mean output?)"));
  CHECK_THAT(warning("lm_head"), ContainsSubstring("(did you mean output?)"));
  CHECK_THAT(warning("attention.wqq"), ContainsSubstring("(did you mean attention.wq?)"));
  CHECK(float8_warnings(load_text(kFloat8 +
                                  "model.name = \"deepseek_v3\"\nquantize.linear.float8.filter_fqns = "
                                  "[\"router.gate\"]\n"))
            .empty());
}

TEST_CASE("GPUs have products of float8 from Ada on, and in blocks of 128 on Hopper alone") {
  using enum rondo::Float8Recipe;
  for (const auto recipe : {tensorwise, rowwise, rowwise_with_gw_hp}) {
    CHECK_FALSE(has_float8_products(recipe, 8, 0));
    CHECK(has_float8_products(recipe, 8, 9));
    CHECK(has_float8_products(recipe, 10, 0));
  }
  CHECK(has_float8_products(blockwise, 9, 0));
  CHECK_FALSE(has_float8_products(blockwise, 8, 9));
  CHECK_FALSE(has_float8_products(blockwise, 10, 0));
}

TEST_CASE("docs/float8.md shows what the log says of Llama 3 8B") {
  std::ifstream page(RONDO_SOURCE_DIR "/docs/float8.md");
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  const std::string told = float8_summary(load_config(
      {"--model.flavor=8B", "--model.converters=float8", "--quantize.linear.float8.filter_fqns=output",
       "--quantize.linear.float8.recipe_name=rowwise"},
      rondo::TargetDevice::cuda));
  CHECK_THAT(text, ContainsSubstring("\n" + told + "\n"));
}

TEST_CASE("float8 that cannot be is refused, with what can be done") {
  CHECK_THAT(message_of("model.converters = [\"float8\"]\n"),
             ContainsSubstring("model.converters = [\"float8\"]: a CPU has no float8 products; set "
                               "quantize.linear.float8.emulate = true"));
  CHECK_THAT(message_of("model.converters = [\"quantize.dense.mx\"]\n"),
             ContainsSubstring("\"quantize.dense.mx\" needs a feature that is not in this version"));
  CHECK_THAT(message_of("model.converters = [\"bitnet\"]\n"),
             ContainsSubstring("must be [\"float8\"] or empty"));
  CHECK_THAT(message_of(recipe("row")),
             ContainsSubstring("allowed: tensorwise, rowwise, rowwise_with_gw_hp, blockwise"));
  CHECK_THAT(
      message_of(recipe("blockwise") + "parallelism.tensor_parallel_degree = 4\n"),
      ContainsSubstring("leaves 64 of the 256 of layers.0.attention.wq to a rank, and float8 \"blockwise\" "
                        "needs a multiple of 128"));
  CHECK(message_of(recipe("rowwise") + "parallelism.tensor_parallel_degree = 4\n").empty());
  CHECK_THAT(message_of(recipe("blockwise") + "training.local_batch_size = 1\ntraining.seq_len = 192\n"),
             ContainsSubstring("a layer has 192 tokens of a microbatch of 1 sequences of 192 on a rank"));
  CHECK_THAT(
      message_of(recipe("blockwise") + "parallelism.tensor_parallel_degree = 8\nmodel.vocab_size = 2176\n"
                                       "quantize.linear.float8.filter_fqns = [\"attention\", \"feed\"]\n"),
      ContainsSubstring("quantize.linear.float8.filter_fqns = [\"output\"] leaves it out"));
  const auto shared = [](int seq_len, const std::string& more = "") {
    return message_of(recipe("blockwise") + "parallelism.context_parallel_degree = 2\ntraining.seq_len = " +
                      std::to_string(seq_len) + "\n" + more);
  };
  CHECK(shared(512).empty());
  CHECK_THAT(shared(256), ContainsSubstring("a rank has runs of 64 tokens of a sequence"));
  CHECK(shared(256, "parallelism.context_parallel_load_balancer = \"none\"\n").empty());
  CHECK_THAT(
      message_of(recipe("rowwise") + "quantize.linear.float8.filter_fqns = [\"auto_filter_small_kn\"]\n"),
      ContainsSubstring("and 40 more (too small to be faster)"));
  CHECK_THAT(
      message_of(recipe("blockwise") + "model.dim = 192\n"),
      ContainsSubstring(
          "no linear layer is computed in float8 \"blockwise\": layers.0.attention.wq, "
          "layers.0.attention.wk, layers.0.attention.wv and 40 more (sizes are not multiples of 128)"));
}

TEST_CASE("linear layers in MXFP8 and NVFP4 leave out the head, and what cannot be is refused") {
  struct Case {
    std::string section;
    rondo::Float8Recipe recipe;
    int granule;
  };
  for (const auto& [section, recipe, granule] :
       {Case{"quantize.linear.mx", rondo::Float8Recipe::mxfp8, 32},
        Case{"quantize.linear.nvfp4", rondo::Float8Recipe::nvfp4, 16}}) {
    const std::string name(rondo::name_of(recipe)), converter = "model.converters = [\"" + section + "\"]\n",
                                                    emulated = converter + section + ".emulate = true\n";
    CHECK(float8_summary(load_text(emulated)) == "float8: " + name +
                                                     ", emulated, 42 of 43 linear layers; not output (named "
                                                     "by " +
                                                     section + ".filter_fqns)");
    CHECK_THAT(message_of(converter), ContainsSubstring("set " + section + ".emulate = true"));
    CHECK_THAT(message_of(emulated + section + ".filter_fqns = [\"outptu\"]\n"),
               ContainsSubstring("\"outptu\" in " + section + ".filter_fqns names no module"));
    const std::string odd_tokens = std::to_string(granule + granule / 2);
    CHECK_THAT(
        message_of(emulated + "training.local_batch_size = 1\ntraining.seq_len = " + odd_tokens + "\n"),
        ContainsSubstring("float8 \"" + name + "\" needs a multiple of " + std::to_string(granule)));
    for (const char* const other : {"float8", "quantize.linear.mx", "quantize.linear.nvfp4"})
      if (other != section)
        CHECK_THAT(message_of("model.converters = [\"" + std::string(other) + "\", \"" + section + "\"]\n" +
                              section + ".emulate = true\n"),
                   ContainsSubstring("linear layers are either in float8, in MXFP8 or in NVFP4; keep one of "
                                     "float8, quantize.linear.mx and quantize.linear.nvfp4"));
    CHECK_FALSE(has_float8_products(recipe, 10, 0));
  }
}

TEST_CASE("MXFP8 of linear layers has one recipe, and accepts torchtitan's choice of a kernel") {
  const std::string mx = "model.converters = [\"quantize.linear.mx\"]\nquantize.linear.mx.emulate = true\n",
                    mxfp4 = "quantize.linear.mx.recipe_name = \"mxfp4\"\n";
  CHECK(message_of(mx + "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice = \"cuda\"\n").empty());
  CHECK_THAT(message_of(mx + mxfp4),
             ContainsSubstring("quantize.linear.mx.recipe_name = \"mxfp4\" is not in this version"));
  CHECK(message_of(mxfp4).empty());
}

TEST_CASE("products of experts are in float8 if their modules are named, and the log says which") {
  const auto experts = [](const std::string& fqns, const std::string& more = "") {
    return "model.converters = [\"quantize.grouped_mm.float8\"]\nquantize.grouped_mm.float8.emulate = true\n"
           "model.name = \"deepseek_v3\"\nquantize.grouped_mm.float8.fqns = " +
           fqns + "\n" + more;
  };
  const auto all = load_text(experts("[\"experts\"]"));
  CHECK(float8_expert_summary(all) == "float8: rowwise_with_gw_hp, emulated, 15 of 15 products of experts");
  CHECK(float8_summary(all).empty());
  CHECK(rondo::float8_parameters(all).size() == 15);
  CHECK(rondo::float8_parameters(all).contains("layers.1.moe.experts.w1.weight"));
  CHECK(float8_expert_summary(load_text(experts("[\"layers.1.\", \"w2\"]"))) ==
        "float8: rowwise_with_gw_hp, emulated, 7 of 15 products of experts; not layers.2.moe.experts.w1, "
        "layers.2.moe.experts.w3, layers.3.moe.experts.w1 and 5 more (not named by "
        "quantize.grouped_mm.float8.fqns)");
  const auto both = load_text(experts("[\"experts\"]") + "quantize.linear.float8.emulate = true\n",
                              {"--model.converters=float8,quantize.grouped_mm.float8"});
  CHECK(float8_summary(both).starts_with("float8: tensorwise, emulated, "));
  CHECK(rondo::float8_parameters(both).size() == 15 + rondo::float8_weights(both).size());
  CHECK(float8_expert_summary(load_text("")).empty());

  const std::string blockwise = "quantize.grouped_mm.float8.recipe_name = \"blockwise\"\n";
  CHECK(float8_expert_summary(load_text(experts("[\"experts\"]", blockwise))) ==
        "float8: blockwise, emulated, 15 of 15 products of experts");
  CHECK_THAT(message_of(experts("[\"experts\"]", blockwise + "model.moe_hidden_dim = 64\n")),
             ContainsSubstring("(sizes are not multiples of 128)"));
  CHECK_THAT(
      message_of(experts("[\"experts\"]", "quantize.grouped_mm.float8.recipe_name = \"tensorwise\"\n")),
      ContainsSubstring("allowed: rowwise, rowwise_with_gw_hp, blockwise"));
  CHECK(has_float8_grouped_products(rondo::Float8Recipe::rowwise_with_gw_hp, 9));
  CHECK_FALSE(has_float8_grouped_products(rondo::Float8Recipe::rowwise, 9));

  CHECK_THAT(message_of(experts("[]")),
             ContainsSubstring("quantize.grouped_mm.float8.fqns names no experts; [\"experts\"] names all"));
  CHECK_THAT(message_of(experts("[\"experts\", \"exprets\"]")),
             ContainsSubstring("\"exprets\" in quantize.grouped_mm.float8.fqns names no experts"));
  CHECK_THAT(message_of(experts("[\"experts\"]", "model.moe_hidden_dim = 24\n")),
             ContainsSubstring("no product of experts is computed in float8: layers.1.moe.experts.w1, "
                               "layers.1.moe.experts.w3, layers.1.moe.experts.w2 and 12 more (sizes are not "
                               "multiples of 16)"));
  CHECK_THAT(message_of(experts("[\"experts\"]",
                                "model.moe_hidden_dim = 16\nparallelism.tensor_parallel_degree = 2\n"
                                "parallelism.expert_tensor_parallel_degree = 2\n")),
             ContainsSubstring("parallelism.expert_tensor_parallel_degree = 2 leaves 8 of the 16 of "
                               "layers.1.moe.experts.w1 to a rank, and float8 needs a multiple of 16"));
  CHECK_THAT(message_of("model.converters = [\"quantize.grouped_mm.float8\"]\n"
                        "quantize.grouped_mm.float8.emulate = true\n"
                        "quantize.grouped_mm.float8.fqns = [\"experts\"]\n"),
             ContainsSubstring("llama3 has no experts"));
  CHECK_THAT(message_of("model.name = \"deepseek_v3\"\nmodel.converters = [\"quantize.grouped_mm.float8\"]\n"
                        "quantize.grouped_mm.float8.fqns = [\"experts\"]\n"),
             ContainsSubstring("set quantize.grouped_mm.float8.emulate = true to emulate them"));
}

TEST_CASE("products of experts are in MXFP8 by torchtitan's keys, and what cannot be is refused") {
  const auto experts = [](const std::string& more) {
    return "model.converters = [\"quantize.grouped_mm.mx\"]\nquantize.grouped_mm.mx.emulate = true\n"
           "model.name = \"deepseek_v3\"\n" +
           more;
  };
  const std::string all = "quantize.grouped_mm.mx.fqns = [\"experts\"]\n";
  CHECK(float8_expert_summary(load_text(experts(all))) ==
        "float8: mxfp8, emulated, 15 of 15 products of experts");
  CHECK_THAT(message_of(experts("")),
             ContainsSubstring("quantize.grouped_mm.mx.fqns names no experts; [\"experts\"] names all"));
  CHECK_THAT(message_of(experts(all + "quantize.grouped_mm.mx.recipe_name = \"mxfp4\"\n")),
             ContainsSubstring(
                 "quantize.grouped_mm.mx.recipe_name = \"mxfp4\" is not in this version; \"mxfp8\" is"));
  CHECK(message_of("quantize.grouped_mm.mx.recipe_name = \"mxfp4\"\n").empty());
  CHECK_THAT(message_of(experts(all + "model.moe_hidden_dim = 48\n")),
             ContainsSubstring("(sizes are not multiples of 32)"));
  CHECK_THAT(
      message_of("model.name = \"deepseek_v3\"\nmodel.converters = [\"quantize.grouped_mm.mx\"]\n" + all),
      ContainsSubstring("set quantize.grouped_mm.mx.emulate = true to emulate them"));
  CHECK_THAT(message_of("model.name = \"deepseek_v3\"\nmodel.converters = [\"quantize.grouped_mm.float8\", "
                        "\"quantize.grouped_mm.mx\"]\nquantize.grouped_mm.mx.emulate = true\n" +
                        all),
             ContainsSubstring("products of experts are either in float8 or in MXFP8"));
  CHECK_FALSE(has_float8_grouped_products(rondo::Float8Recipe::mxfp8, 9));
  CHECK_FALSE(has_float8_grouped_products(rondo::Float8Recipe::mxfp8, 10));
}

TEST_CASE("degrees that are inferred are checked once the ranks are known") {
  const rondo::JobConfig config = load_text(recipe("blockwise") +
                                            "parallelism.tensor_parallel_degree = -1\n"
                                            "parallelism.data_parallel_shard_degree = 1\n");
  CHECK(resolve_layout(config, 2).mesh.world_size() == 2);
  CHECK_THROWS_WITH(resolve_layout(config, 4),
                    ContainsSubstring("float8 \"blockwise\" needs a multiple of 128"));
}
