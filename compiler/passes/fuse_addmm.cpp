//   %3 = aten.mm.default(%1, %2)                   %4 = aten.addmm.default(%0, %1, %2, 1, 1)
//   %4 = aten.add.Tensor(%0, %3, 1)          ->
//
// Applies where the product is the later of the two operands and the sum is the only reader of
// both. addmm then adds in place (passes/reinplace.cpp), without memory traffic for the sum. A
// tensor that is read later would be copied first, which is as much traffic as the sum.
#include "compiler/analysis/fusion.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

class AddmmFusion {
 public:
  explicit AddmmFusion(Graph& graph) : fusion_(graph, "fuse_addmm") {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i)
      if (fusion_.node(i).op == "aten.add.Tensor")
        for (std::size_t product : {0, 1})
          if (fuse(i, operand(fusion_.node(i), product), operand(fusion_.node(i), 1 - product))) break;
    return fusion_.finish();
  }

 private:
  bool fuse(NodeIndex sum, ValueId product, ValueId other) {
    const NodeIndex mm = fusion_.maker(product, "aten.mm.default"), before = fusion_.maker(other);
    const ValueId result = fusion_.result(sum);
    if (mm == kNoNode || before == kNoNode || mm < before || !is_sum(fusion_.node(sum), product, other) ||
        fusion_.node(mm).phase != fusion_.node(sum).phase || fusion_.only_reader(other) != sum ||
        fusion_.graph().value(other).views != kNoValue || fusion_.type(other) != fusion_.type(product) ||
        fusion_.type(other) != fusion_.type(result))
      return false;
    const ValueId left = operand(fusion_.node(mm), 0), right = operand(fusion_.node(mm), 1);
    if (!fusion_.take({mm, sum}, {result}, {other, left, right})) return false;
    fusion_.replace(result,
                    fusion_.insert(mm, "aten.addmm.default",
                                   {Use{other}, Use{left}, Use{right}, std::int64_t{1}, std::int64_t{1}},
                                   {fusion_.type(result)})[0]);
    fusion_.count("sums with products");
    return true;
  }

  Fusion fusion_;
};

}  // namespace

Notes fuse_addmm(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return AddmmFusion(graph).run();
}

}  // namespace rondo::ir
