// The rules of the types of sharding for float8: numbers, scales and products.
#include "tests/compiler/verify/sharding_case.h"

using namespace rondo::ir;

// x with rows over dp, and a weight with rows over tp: each rank quantizes the operands that it
// multiplies.
const std::string kQuantized =
    "  %40: f8e4m3[2,8], %41: f32[2,1] = rondo.quantize_float8.default(%3, 1, 0, f8e4m3, true)\n"
    "  %42: f8e4m3[8,8], %43: f32[1,1] = rondo.quantize_float8.default(%12, 0, 0, f8e4m3, true)\n";

TEST_CASE("scales of float8 are sharded like their values, or local if they cover a sharded dimension") {
  CHECK(type_of(kWeights + kQuantized, 40) == "dp 0");
  CHECK(type_of(kWeights + kQuantized, 41) == "dp 0");
  CHECK(type_of(kWeights + kQuantized, 42) == "tp 0");
  CHECK(type_of(kWeights + kQuantized, 43) == "tp local");
  const std::string product =
      "  %44: bf16[2,8] = rondo.float8_mm.default(%40, %41, %42, %43, bf16, true, false)\n";
  CHECK(type_of(kWeights + kQuantized + product, 44) == "dp 0, tp 1");
  CHECK(refusal_of(kWeights + kQuantized + product).empty());
}

TEST_CASE("numbers of NVFP4 are sharded like their matrix, and its scales are a rank's own") {
  const std::string quantized =
      "  %40: f8e4m3[2,8], %41: f32[2,1] = rondo.quantize_nvfp4.default(%3, false, false, none)\n"
      "  %42: f8e4m3[8,8], %43: f32[8,1] = rondo.quantize_nvfp4.default(%12, true, false, none)\n";
  CHECK(type_of(kWeights + quantized, 40) == "dp 0");
  CHECK(type_of(kWeights + quantized, 41) == "dp local");
  CHECK(type_of(kWeights + quantized, 42) == "tp 0");
  CHECK(type_of(kWeights + quantized, 43) == "tp local");
  const std::string product =
      "  %44: bf16[2,8] = rondo.float8_mm.default(%40, %41, %42, %43, bf16, false, true)\n";
  CHECK(type_of(kWeights + quantized + product, 44) == "dp 0, tp 1");
  CHECK(refusal_of(kWeights + quantized + product).empty());
  CHECK(refusal_of(kWeights + "  %40: f8e4m3[2,8], %41: f32[2,1] = rondo.quantize_nvfp4.default(%32, false, "
                              "false, 5)\n")
            .ends_with("axis tp: it is not linear, but an operand is partial"));
}

// Each rank of tp has two of four experts, and rows for them.
TEST_CASE("products of experts in float8 are sharded as in other dtypes, and multiply a rank's own rows") {
  const std::string experts = kWeights +
                              "  %40: i64[2], %41: b8[2] = rondo.local_ids.default(%5, 0, 8, 0, \"tp\")\n"
                              "  %42: f32[2,8] = aten.embedding.default(%12, %40, -1, false, false)\n"
                              "  %50: f32[2,4,8] views %12 = aten.view.default(%12, [2, 4, 8])\n"
                              "  %51: f8e4m3[2,4,8], %52: f32[2,4,1] = rondo.quantize_float8.default(%50, "
                              "1, 0, f8e4m3, true)\n";
  const auto product = [](const std::string& rows) {
    return "  %53: f8e4m3[2,8], %54: f32[2,1] = rondo.quantize_float8_runs.default(" + rows + ", %40, 0)\n" +
           "  %55: bf16[2,4] = rondo.float8_grouped_mm.default(%53, %54, %51, %52, %40, bf16, true, false)\n";
  };
  CHECK(type_of(experts, 51) == "tp 0");
  CHECK(type_of(experts, 52) == "tp 0");
  CHECK(type_of(experts + product("%42"), 53) == "dp 0, tp local");
  CHECK(type_of(experts + product("%42"), 54) == "dp 0, tp local");
  CHECK(type_of(experts + product("%42"), 55) == "dp 0, tp local");
  CHECK(
      refusal_of(experts + product("%3"))
          .ends_with("axis tp: it multiplies the matrices of this rank's experts by rows of other experts"));
  // Each rank has a part of every row of each expert.
  const std::string parts =
      "  %50: f32[2,4,8] views %22 = aten.view.default(%22, [2, 4, 8])\n"
      "  %51: f8e4m3[2,4,8], %52: f32[2,4,1] = rondo.quantize_float8.default(%50, 1, 0, f8e4m3, true)\n";
  CHECK(type_of(kWeights + parts, 51) == "tp 2");
  CHECK(type_of(kWeights + parts, 52) == "tp local");
}

TEST_CASE(
    "a float8 product over a sharded dimension is a partial sum, and requires the scales of its values") {
  const std::string rows =
      "  %50: f8e4m3[2,8], %51: f32[2,1] = rondo.quantize_float8.default(%31, 1, 0, f8e4m3, true)\n"
      "  %52: f8e4m3[8,8], %53: f32[8,1] = rondo.quantize_float8.default(%22, 1, 0, f8e4m3, true)\n";
  const auto product = [](const char* scales) {
    return std::string("  %54: bf16[2,8] = rondo.float8_mm.default(%50, %51, %52, ") + scales +
           ", bf16, true, false)\n";
  };
  CHECK(type_of(kWeights + rows, 51) == "dp 0, tp local");
  CHECK(type_of(kWeights + rows + product("%53"), 54) == "dp 0, tp sum");
  CHECK(refusal_of(kWeights + rows + kQuantized + product("%41")) ==
        "node 15 (rondo.float8_mm.default, module m) axis dp: its scales are not sharded like its values: "
        "\"0\" "
        "and "
        "\"replicated\"");
  CHECK(refusal_of(kWeights + "  %50: f8e4m3[2,8], %51: f32[2,1] = rondo.quantize_float8.default(%32, 1, 0, "
                              "f8e4m3, true)\n") ==
        "node 11 (rondo.quantize_float8.default, module m) axis tp: it is not linear, but an operand is "
        "partial");
}

// A weight with rows over tp, whose largest magnitude is that of a rank's rows until it is reduced.
TEST_CASE("ranks that reduce the largest magnitude share a scale, and others have scales of their own") {
  const std::string largest = kWeights + "  %40: f32[1] = rondo.largest_magnitude.default(%12)\n",
                    reduced = largest +
                              "  %41: f32[1] = _c10d_functional.all_reduce.default(%40, \"max\", \"tp\")\n"
                              "  %42: f32[1] views %41 = _c10d_functional.wait_tensor.default(%41)\n";
  const auto quantized = [](const char* by) {
    return std::string("  %50: f8e4m3[8,8], %51: f32[1,1] = rondo.quantize_float8_by.default(%12, ") + by +
           ", f8e4m3, true)\n";
  };
  CHECK(type_of(largest, 40) == "tp max");
  CHECK(type_of(largest + quantized("%40"), 51) == "tp local");
  CHECK(type_of(reduced + quantized("%42"), 51).empty());
  const std::string gathered =
      "  %52: f8e4m3[16,8] = _c10d_functional.all_gather_into_tensor.default(%50, 2, \"tp\")\n"
      "  %53: f8e4m3[16,8] views %52 = _c10d_functional.wait_tensor.default(%52)\n";
  CHECK(type_of(reduced + quantized("%42") + gathered, 53).empty());
  const std::string transposed = "  %54: f8e4m3[8,8] = rondo.transpose_float8.default(%50)\n";
  CHECK(type_of(reduced + quantized("%42") + transposed, 54) == "tp 1");
  // Without the maximum over ranks, the gathered numbers have no common scale.
  const std::string product =
      "  %60: f8e4m3[2,8], %61: f32[2,1] = rondo.quantize_float8.default(%3, 1, 0, f8e4m3, true)\n"
      "  %62: bf16[2,16] = rondo.float8_mm.default(%60, %61, %53, %51, bf16, true, false)\n";
  CHECK(refusal_of(reduced + quantized("%42") + gathered + product).empty());
  CHECK(refusal_of(largest + quantized("%40") + gathered + product)
            .ends_with("its scales are not sharded like its values: \"local\" and \"replicated\""));
}

// Each rank of tp has the runs of its own experts, and ranks of dp have other tokens.
TEST_CASE("padded runs are sharded like their rows, and their products are a rank's own experts") {
  const std::string rows = kWeights +
                           "  %40: i64[2], %41: b8[2] = rondo.local_ids.default(%5, 0, 8, 0, \"tp\")\n"
                           "  %42: f32[2,8] = aten.embedding.default(%12, %40, -1, false, false)\n";
  const std::string padded =
      rows + "  %50: f32[256,8], %51: i64[2] = rondo.pad_runs.default(%42, %40, 128)\n";
  const std::string quantized = padded +
                                "  %52: f32[8,256]{1,8} views %50 = aten.t.default(%50)\n"
                                "  %53: f8e4m3[8,256], %54: f32[8,2] = rondo.quantize_float8.default(%52, "
                                "1, 128, f8e4m3, true)\n";
  const std::string product =
      "  %55: f32[2,8,8] = rondo.float8_grouped_mm.default(%53, %54, %53, %54, %51, f32, false, true)\n";
  CHECK(type_of(padded, 50) == "dp 0, tp local");
  CHECK(type_of(padded, 51) == type_of(rows, 40));
  CHECK(type_of(quantized, 53) == "dp 1, tp local");
  CHECK(type_of(quantized, 54) == "dp 1, tp local");
  CHECK(type_of(quantized + product, 55) == "dp sum, tp 0");
  const std::string columns =
      padded + "  %53: f8e4m3[8,256], %54: f32[8,8] = rondo.quantize_float8_columns.default(%50, %51)\n";
  CHECK(type_of(columns, 53) == "dp 1, tp local");
  CHECK(type_of(columns, 54) == "dp local, tp local");
  CHECK(type_of(columns + product, 55) == "dp sum, tp 0");
  CHECK(refusal_of(quantized + product).empty());
  // Partial sums stay partial in their padding, and are not rounded before they are complete.
  const std::string partial =
      rows + "  %50: f32[256,8], %51: i64[2] = rondo.pad_runs.default(%32, %40, 128)\n";
  CHECK(type_of(partial, 50) == "dp 0, tp sum");
  CHECK(refusal_of(partial + quantized.substr(padded.size()))
            .ends_with("axis tp: it is not linear, but an operand is partial"));
  CHECK(refusal_of(rows + "  %50: f32[256,8], %51: i64[2] = rondo.pad_runs.default(%21, %40, 128)\n")
            .ends_with("axis tp: it needs a matrix, but its operand is flattened"));
}
