#include "config/derived/matmul_table.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "ops/matmul/matmul_algorithm.h"
#include "support/error.h"

using namespace rondo;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

const MatmulTable kTable{
    "NVIDIA H200",
    {{"mm(bf16[64,32],bf16[32,48])", 3, 7.5, 6.25, "130100:4096:42.1.0.0.0.0.0.ffffffffffffffff"},
     {"addmm(bf16[64,48],bf16[48,32])", 1, 8, 8, ""}}};

std::string with(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

}  // namespace

TEST_CASE("a table of measured algorithms reads back as it was written") {
  CHECK(parse_matmul_table(to_text(kTable), "m.json") == kTable);
  const auto algorithms = kTable.algorithms();
  CHECK(algorithms.at("mm(bf16[64,32],bf16[32,48])") == kTable.rows[0].algorithm);
  CHECK(algorithms.at("addmm(bf16[64,48],bf16[48,32])").empty());
}

TEST_CASE("tables that differ have other fingerprints") {
  MatmulTable other = kTable;
  other.rows[0].algorithm = "130100:4096:42.2.0.0.0.0.0.0";
  CHECK(fingerprint(kTable) == fingerprint(kTable));
  CHECK(fingerprint(kTable) != fingerprint(other));
}

TEST_CASE("what is wrong with a table is told with its row") {
  struct Row {
    const char *old, *by, *says;
  };
  const std::string text = to_text(kTable);
  for (const Row& row : {
           Row{"NVIDIA H200", "\"", "m.json: is not JSON: parse error at line 3"},
           Row{"\"device\"", "\"gpu\"", "m.json: device is missing; measure again with rondo tune"},
           Row{"\"products\"", "\"rows\"", "m.json: products is missing"},
           Row{"\"calls\": 3", "\"calls\": -3",
               "m.json: products[0].calls = -3: must be a whole number from 1"},
           Row{"6.25", "0", "m.json: products[0].us = 0: must be above 0"},
           Row{"130100:", "x:",
               "m.json: products[0].algorithm = \"x:4096:42.1.0.0.0.0.0.ffffffffffffffff\": is not a "
               "cuBLASLt algorithm"},
           Row{"addmm(bf16[64,48],bf16[48,32])", "mm(bf16[64,32],bf16[32,48])",
               "m.json: products[1].product = \"mm(bf16[64,32],bf16[32,48])\": is in the table already"},
       })
    CHECK_THROWS_MATCHES(parse_matmul_table(with(text, row.old, row.by), "m.json"), Error,
                         MessageMatches(StartsWith(row.says)));
}

TEST_CASE("a table of another GPU is refused with both names") {
  const MatmulTable corpus =
      read_matmul_table(RONDO_SOURCE_DIR "/tests/attack/corpus/matmul_table/h200.json");
  CHECK_NOTHROW(check_measured_on(corpus, "m.json", "NVIDIA H200"));
  CHECK_THROWS_MATCHES(
      check_measured_on(corpus, "m.json", "NVIDIA H100 80GB HBM3"), Error,
      MessageMatches(Catch::Matchers::ContainsSubstring(
          "was measured on \"NVIDIA H200\", but this device is \"NVIDIA H100 80GB HBM3\"; measure again")));
}

TEST_CASE("an algorithm is eight words, and nothing else is one") {
  const MatmulAlgorithm algorithm{130100, 4096, {0x42, 1, 0, 0, 0, 0, 0, ~std::uint64_t{0}}};
  CHECK(to_text(algorithm) == "130100:4096:42.1.0.0.0.0.0.ffffffffffffffff");
  CHECK(parse_matmul_algorithm(to_text(algorithm)) == algorithm);
  for (const char* text :
       {"", "130100", "130100:0:1.2.3.4.5.6.7", "130100:0:1.2.3.4.5.6.7.8.9", "130100:-1:1.2.3.4.5.6.7.8",
        "130100:2000000000:1.2.3.4.5.6.7.8", "130100:0:1.2.3.4.5.6.7.10000000000000000",
        "130100:0:1.2.3.4.5.6.7.8 ", "-1:0:1.2.3.4.5.6.7.8", "130100:0:1.2.3.4.5.6.7.-8"}) {
    INFO(text);
    CHECK_FALSE(parse_matmul_algorithm(text).has_value());
  }
}
