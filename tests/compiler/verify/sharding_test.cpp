// The rules of the types of sharding, with graphs of a few nodes: which are accepted, and why
// others are refused.
#include "tests/compiler/verify/sharding_case.h"

using namespace rondo::ir;

TEST_CASE("a gathered flat shard is the rank's part of its matrix") {
  CHECK(type_of(kWeights, 12) == "tp 0");
  CHECK(type_of(kWeights, 21) == "tp inner 1");
  CHECK(type_of(kWeights, 22) == "tp 1");
}

TEST_CASE("dimensions of one element do not change a flattening, so one expert is sharded like several") {
  const std::string nodes =
      "  %20: f32[64] = _c10d_functional.all_gather_into_tensor.default(%2, 4, \"dp\")\n"
      "  %21: f32[64] views %20 = _c10d_functional.wait_tensor.default(%20)\n"
      "  %24: f32[8,1,8] views %21 = aten.view.default(%21, [8, 1, 8])\n"
      "  %25: f32[64] views %24 = aten.view.default(%24, [64])\n"
      "  %26: f32[1,8,8] views %21 = aten.view.default(%21, [1, 8, 8])\n"
      "  %27: f32[64] views %26 = aten.view.default(%26, [64])\n"
      "  %28: f32[64] = aten.add.Tensor(%25, %27)\n"
      "  %29: f32[4,16] views %21 = aten.view.default(%21, [4, 16])\n";
  CHECK(type_of(nodes, 24) == "tp 2");
  CHECK(type_of(nodes, 25) == "tp inner 1");
  CHECK(type_of(nodes, 28) == "tp inner 1");
  CHECK(type_of(nodes, 29) == "tp inner 1");  // still flat
  std::string head = kHead;
  head.replace(head.find("inner 1 of [8,8]"), 16, "inner 1 of [1,8,8]");
  CHECK(type_of(nodes, 26, head) == "tp 1");
  CHECK(type_of(nodes, 27, head) == "tp inner 0");
}

TEST_CASE("a part of one element keeps its dimension through transpositions and views") {
  const std::string head =
      "graph g\naxis tp 2\ngroup tp tp\nbatch %0: f32[4,1,8] x on tp 1\nbatch %1: f32[1,1] sinks on tp "
      "1\nforward m\n";
  const std::string nodes =
      "  %2: f32[1,4,8]{8,8,1} views %0 = aten.transpose.int(%0, 0, 1)\n"
      "  %3: f32[4,8] views %0 = aten.view.default(%0, [4, 8])\n"
      "  %4: f32[1] views %1 = aten.view.default(%1, [1])\n"
      "  %5: f32[4,1,8] = aten.sum.dim_IntList(%0, [1], true)\n";
  CHECK(type_of(nodes, 2, head) == "tp 0");
  CHECK(type_of(nodes, 3, head) == "tp 1");  // of the concatenated heads
  CHECK(type_of(nodes, 4, head) == "tp 0");
  CHECK(type_of(nodes, 5, head) == "tp sum");
}

TEST_CASE(
    "a column-parallel layer before a row-parallel one gives a partial sum, which an all-reduce completes") {
  CHECK(type_of(kWeights, 30) == "dp 0, tp 1");
  CHECK(type_of(kWeights, 32) == "dp 0, tp sum");
  CHECK(type_of(kWeights + kSum, 34) == "dp 0");
}

TEST_CASE("ranks that exchange the terms of their sums add them up, and nothing else completes the sum") {
  const std::string exchanged =
      kWeights +
      "  %35: f32[2,8] = _c10d_functional.all_to_all_single.default(%32, [1, 1], [1, 1], \"tp\")\n"
      "  %36: f32[2,8] views %35 = _c10d_functional.wait_tensor.default(%35)\n";
  CHECK(type_of(exchanged, 36) == "dp 0, tp local");
  const std::string summed = exchanged + "  %37: f32[1,8] = rondo.sum_pieces.default(%36, 2, \"tp\")\n";
  CHECK(type_of(summed, 37) == "dp 0, tp 0");
  const std::string reduced = exchanged +
                              "  %37: f32[2,8] = _c10d_functional.all_reduce.default(%36, \"sum\", \"tp\")\n"
                              "  %38: f32[2,8] views %37 = _c10d_functional.wait_tensor.default(%37)\n";
  CHECK(refusal_of(reduced) ==
        "node 13 (_c10d_functional.all_reduce.default, module m) axis tp: it sums over ranks, but its "
        "operand is \"local\"");
  CHECK(refusal_of(kWeights + "  %35: f32[1,8] = rondo.sum_pieces.default(%32, 2, \"tp\")\n") ==
        "node 11 (rondo.sum_pieces.default, module m) axis tp: it sums pieces from all ranks, but its "
        "operand is \"sum\"");
}

TEST_CASE("a partial sum is refused by nonlinear ops and by sums with a whole operand") {
  CHECK(refusal_of(kWeights + "  %35: f32[2,8] = aten.silu.default(%32)\n") ==
        "node 11 (aten.silu.default, module m) axis tp: it is not linear, but an operand is partial");
  CHECK(refusal_of(kWeights + "  %35: f32[2,8] = aten.add.Tensor(%32, %3, 1)\n") ==
        "node 11 (aten.add.Tensor, module m) axis tp: it adds a partial operand to one that is not, \"sum\" "
        "and "
        "\"replicated\"");
  CHECK(
      refusal_of(kWeights + "  %35: f32[2,8] = aten.mul.Tensor(%32, %32)\n") ==
      "node 11 (aten.mul.Tensor, module m) axis tp: it multiplies two partial operands, \"sum\" and \"sum\"");
  CHECK(refusal_of(kWeights + "  %35: f32[2,8] = aten.mul.Tensor(%32, 2.0)\n").empty());
}

TEST_CASE("a collective requires its placement on the axes of its group") {
  CHECK(refusal_of(kWeights + "  %33: f32[2,8] = _c10d_functional.all_reduce.default(%32, \"sum\", \"dp\")\n"
                              "  %34: f32[2,8] views %33 = _c10d_functional.wait_tensor.default(%33)\n") ==
        "node 11 (_c10d_functional.all_reduce.default, module m) axis dp: it sums over ranks, but its "
        "operand is "
        "\"0\"");
  CHECK(refusal_of("  %40: f32[16,8] = _c10d_functional.all_gather_into_tensor.default(%3, 8, \"dp_tp\")\n"
                   "  %41: f32[16,8] views %40 = _c10d_functional.wait_tensor.default(%40)\n") ==
        "node 0 (_c10d_functional.all_gather_into_tensor.default, module m) axis tp: it gathers the rows of "
        "all ranks, but they are \"replicated\"");
  CHECK(refusal_of("  %40: f32[4,8] = _c10d_functional.all_gather_into_tensor.default(%3, 2, \"dp\")\n"
                   "  %41: f32[4,8] views %40 = _c10d_functional.wait_tensor.default(%40)\n") ==
        "node 0 (_c10d_functional.all_gather_into_tensor.default, module m) it names 2 ranks, but group "
        "\"dp\" has 4");
  CHECK(refusal_of("  %40: f32[2,8] = _c10d_functional.all_reduce.default(%3, \"sum\", \"ep\")\n"
                   "  %41: f32[2,8] views %40 = _c10d_functional.wait_tensor.default(%40)\n") ==
        "node 0 (_c10d_functional.all_reduce.default, module m) it names the group \"ep\", which the mesh "
        "does not have");
}

TEST_CASE("a sum over ranks of equal values must be divided by their number once") {
  const std::string summed =
      "  %40: f32[] = _c10d_functional.all_reduce.default(%4, \"sum\", \"dp_tp\")\n"
      "  %41: f32[] views %40 = _c10d_functional.wait_tensor.default(%40)\n";
  CHECK(type_of(summed, 41) == "tp replicated repeated");
  CHECK(refusal_of(summed, "return\n  total = %41\n") ==
        "node 2 (return, module m) output \"total\" is sharded as dp replicated, tp replicated repeated, but "
        "must be "
        "sharded as dp replicated, tp replicated");
  CHECK(refusal_of(summed + "  %42: f32[] = aten.div.Tensor(%41, wrapped(4.0))\n", "return\n  total = %42\n")
            .starts_with("node 3 (return, module m) output \"total\" is sharded as"));
  CHECK(refusal_of(summed + "  %42: f32[] = aten.div.Tensor(%41, wrapped(2.0))\n", "return\n  total = %42\n")
            .empty());
}

TEST_CASE("ids of a part select its rows, and rows of other ranks are cleared before the sum") {
  const std::string rows =
      "  %40: i64[2], %41: b8[2] = rondo.local_ids.default(%5, 0, 8, 0, \"tp\")\n"
      "  %42: f32[2,8] = aten.embedding.default(%12, %40, -1, false, false)\n"
      "  %43: b8[2,1] views %41 = aten.unsqueeze.default(%41, 1)\n";
  const std::string masked = kWeights + rows + "  %44: f32[2,8] = aten.masked_fill.Scalar(%42, %43, 0)\n";
  CHECK(type_of(masked, 42) == "dp 0, tp local");
  CHECK(type_of(masked, 44) == "dp 0, tp sum");
  CHECK(refusal_of(kWeights + "  %42: f32[2,8] = aten.embedding.default(%12, %5, -1, false, false)\n") ==
        "node 11 (aten.embedding.default, module m) axis tp: it looks up ids of the whole table in one part "
        "of it");
  CHECK(refusal_of(masked +
                   "  %45: f32[8,8] = aten.embedding_dense_backward.default(%42, %40, 8, -1, false)\n") ==
        "node 15 (aten.embedding_dense_backward.default, module m) axis tp: the gradient of rows outside of "
        "this rank's part is not cleared");
}

TEST_CASE("rows and columns that are sharded over the same ranks are not multiplied") {
  CHECK(
      refusal_of("  %10: f32[32] = _c10d_functional.all_gather_into_tensor.default(%1, 2, \"tp\")\n"
                 "  %11: f32[32] views %10 = _c10d_functional.wait_tensor.default(%10)\n"
                 "  %12: f32[4,8] views %11 = aten.view.default(%11, [4, 8])\n"
                 "  %13: f32[8,4]{1,8} views %12 = aten.t.default(%12)\n"
                 "  %14: f32[2,4] = aten.mm.default(%3, %13)\n") ==
      "node 4 (aten.mm.default, module m) axis dp: each rank multiplies different rows by different columns");
}

TEST_CASE("an op without a rule is refused unless its operands are replicated") {
  CHECK(refusal_of("  %40: f32[2,8] = x.unknown.default(%3)\n") ==
        "node 0 (x.unknown.default, module m) its op has no rule of sharding "
        "(compiler/ops/op.h)");
  CHECK(refusal_of("  %40: f32[4] = aten.ones.default([4], f32, none, none, none)\n"
                   "  %41: f32[4] = x.unknown.default(%40)\n")
            .empty());
}

TEST_CASE("a buffer of parts that are sharded differently is split where it was concatenated") {
  const std::string buffer = "  %40: f32[32] = aten.cat.default([%1, %2], 0)\n";
  CHECK(type_of(buffer, 40) == "parts");
  CHECK(refusal_of(buffer + "  %41: f32[32] = aten.exp.default(%40)\n") ==
        "node 1 (aten.exp.default, module m) it reads a buffer whose parts are sharded differently");
  const std::string gathered =
      buffer +
      "  %41: f32[128] = _c10d_functional.all_gather_into_tensor.default(%40, 4, \"dp\")\n"
      "  %42: f32[128] views %41 = _c10d_functional.wait_tensor.default(%41)\n"
      "  %43: f32[4,32] views %42 = aten.view.default(%42, [4, 32])\n"
      "  %44: f32[4,16], %45: f32[4,16] = aten.split_with_sizes_copy.default(%43, [16, 16], 1)\n";
  CHECK(type_of(gathered, 44) == "tp 0");
  CHECK(type_of(gathered, 45) == "tp inner 1");
}

TEST_CASE("each part of a buffer is flattened from its own sizes, even if it is as long as there are ranks") {
  // Three experts over three ranks: rows of the buffer are experts, and a view of [3, 6] as rows is
  // not a flattening.
  const std::string head =
      "graph g\naxis dp 3\naxis tp 2\ngroup dp dp\ngroup tp tp\n"
      "buffer %0: f32[6] bias on dp 0 tp inner 1 of [3,6]\n"
      "batch %1: f32[3,6] x on dp sum tp 1\nbatch %2: f32[3,4] y on dp sum\nforward m\n";
  const std::string nodes =
      "  %3: f32[3,10] = aten.cat.default([%1, %2], 1)\n"
      "  %4: f32[30] views %3 = aten.view.default(%3, [30])\n"
      "  %5: f32[10] = _c10d_functional.reduce_scatter_tensor.default(%4, \"sum\", 3, \"dp\")\n"
      "  %6: f32[10] views %5 = _c10d_functional.wait_tensor.default(%5)\n"
      "  %7: f32[6] views %6, %8: f32[4] views %6 = aten.split_with_sizes.default(%6, [6, 4], 0)\n"
      "  %9: f32[6] = aten.add.Tensor(%0, %7, 1)\n";
  CHECK(type_of(nodes, 9, head) == "dp 0, tp inner 1");
}

TEST_CASE("zeros remain zeros in a summed buffer, and have the type of the other parts where all are read") {
  const std::string buffer =
      "  %40: f32[1] = aten.zeros.default([1], f32, none, none, none)\n"
      "  %41: f32[3] = aten.ones.default([3], f32, none, none, none)\n"
      "  %42: f32[4] = aten.cat.default([%40, %41], 0)\n"
      "  %43: f32[4] = _c10d_functional.all_reduce.default(%42, \"sum\", \"dp\")\n"
      "  %44: f32[4] views %43 = _c10d_functional.wait_tensor.default(%43)\n"
      "  %45: f32[1] views %44 = aten.slice.Tensor(%44, 0, 0, 1, 1)\n"
      "  %46: f32[3] views %44 = aten.slice.Tensor(%44, 0, 1, 4, 1)\n"
      "  %47: f32[] = aten.sum.default(%44)\n";
  CHECK(type_of(buffer, 44) == "parts");
  CHECK(type_of(buffer, 45) == "dp zero, tp zero");
  CHECK(type_of(buffer, 46) == "dp replicated repeated");
  CHECK(type_of(buffer, 47) == "dp replicated repeated");
  // A zero and a count of each replica.
  CHECK(refusal_of(buffer + "  %48: f32[3] = aten.add.Tensor(%45, %41)\n").empty());
}

TEST_CASE("the text of a graph has its mesh and the sharding of its inputs") {
  const std::string text = print(parse(std::string(kHead) + "return\n", "x.ir"));
  CHECK(text.find("axis dp 4\naxis tp 2\ngroup dp dp\ngroup tp tp\ngroup dp_tp dp tp\n") !=
        std::string::npos);
  CHECK(text.find("row on dp 0 tp inner 1 of [8,8]\n") != std::string::npos);
  CHECK(print(parse(text, "x.ir")) == text);
}

TEST_CASE("a head with its loss takes the labels of its rows, and one gradient for all of them") {
  // A weight %42 of all columns, tokens %44 of the step, rows of all ranks: labels %47, places %48.
  const std::string operands =
      "  %40: f32[64] = _c10d_functional.all_gather_into_tensor.default(%0, 8, \"dp_tp\")\n"
      "  %41: f32[64] views %40 = _c10d_functional.wait_tensor.default(%40)\n"
      "  %42: f32[8,8] views %41 = aten.view.default(%41, [8, 8])\n"
      "  %43: f32[] = _c10d_functional.all_reduce.default(%4, \"sum\", \"dp\")\n"
      "  %44: f32[] views %43 = _c10d_functional.wait_tensor.default(%43)\n"
      "  %45: i64[8] = _c10d_functional.all_gather_into_tensor.default(%5, 4, \"dp\")\n"
      "  %46: i64[8] views %45 = _c10d_functional.wait_tensor.default(%45)\n"
      "  %47: i64[2] views %46 = aten.slice.Tensor(%46, 0, 0, 2, 1)\n"
      "  %48: i64[2,1] views %47 = aten.view.default(%47, [2, 1])\n"
      "  %49: i64[2,1] views %5 = aten.view.default(%5, [2, 1])\n"
      "  %50: f32[2,1] = aten.sum.dim_IntList(%3, [1], true)\n"
      "  %51: f32[2,1] = aten.expand.default(%44, [2, 1])\n";
  const std::string other = "axis dp: argument 2 is \"replicated\", but the rows of h are \"0\"";
  const auto loss = [&](const std::string& labels, const std::string& gradient) {
    return operands +
           "  %60: f32[2], %61: f32[2,8], %62: f32[8,8], %63: f32[2,8] = "
           "rondo.linear_cross_entropy.default(%3, %42, " +
           labels + ", " + gradient + ", -100, 2)\n";
  };
  CHECK(type_of(loss("%5", "%44"), 60) == "dp 0");
  CHECK(type_of(loss("%5", "%44"), 62) == "dp sum");
  CHECK(refusal_of(loss("%47", "%44")).ends_with(other));
  CHECK(refusal_of(loss("%5", "%4")).ends_with("axis dp: its gradient is \"sum\", but must be replicated"));
  const auto losses = [&](const std::string& labels) {
    return operands + "  %60: f32[2], %61: f32[2,8] = rondo.linear_cross_entropy_losses.default(%3, %42, " +
           labels + ", -100, 2)\n";
  };
  CHECK(refusal_of(losses("%5")).empty());
  CHECK(refusal_of(losses("%47")).ends_with(other));
  const auto statistics = [&](const std::string& place) {
    return operands +
           "  %60: f32[2,1], %61: f32[2,1], %62: f32[2,1], %63: f32[2,8] = "
           "rondo.linear_cross_entropy_statistics.default(%3, %42, " +
           place + ", 2)\n";
  };
  CHECK(refusal_of(statistics("%49")).empty());
  CHECK(refusal_of(statistics("%48")).ends_with(other));
  const auto gradients = [&](const std::string& place, const std::string& rows, const std::string& gradient) {
    return operands +
           "  %60: f32[2,8], %61: f32[8,8], %62: f32[2,8] = "
           "rondo.linear_cross_entropy_gradients.default(%3, %42, " +
           place + ", " + rows + ", " + rows + ", " + gradient + ", " + rows + ", 2)\n";
  };
  CHECK(refusal_of(gradients("%49", "%50", "%50")).empty());
  CHECK(refusal_of(gradients("%48", "%50", "%50")).ends_with(other));
  CHECK(refusal_of(gradients("%49", "%50", "%51"))
            .ends_with("argument 5 is \"replicated\", but the rows of h are \"0\""));
}
