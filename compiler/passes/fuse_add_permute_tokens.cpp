// Adds the two input gradients of experts where their rows are gathered.
//
//   %3 = aten.add.Tensor(%1, %2, 1)
//   %4 = rondo.unpermute_tokens.default(%3, %p, %c, %s, false, none)
//                       ->
//   %4 = rondo.unpermute_tokens.default(%1, %p, %c, %s, false, %2)
//
// Applies to rondo.permute_tokens, too, where it reads each row at most once (copies = 1). The sum
// is then neither written nor read, and empty rows of the operands are not read.
#include <utility>

#include "compiler/analysis/fusion.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr std::string_view kPermute = "rondo.permute_tokens.default",
                           kUnpermute = "rondo.unpermute_tokens.default";
constexpr std::size_t kAddend = 5;  // in the arguments of both

class AddPermuteFusion {
 public:
  explicit AddPermuteFusion(Graph& graph) : fusion_(graph, "fuse_add_permute_tokens") {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i)
      if (reads_rows_once(fusion_.node(i))) fuse(i);
    return fusion_.finish();
  }

 private:
  static bool reads_rows_once(const Node& node) {
    return node.op == kUnpermute || (node.op == kPermute && integer(node, 3) == 1);
  }

  void fuse(NodeIndex permute) {
    const ValueId sum = operand(fusion_.node(permute), 0), result = fusion_.result(permute);
    const NodeIndex add = fusion_.maker(sum, "aten.add.Tensor");
    if (add == kNoNode || fusion_.node(add).phase != fusion_.node(permute).phase ||
        operand(fusion_.node(permute), kAddend) != kNoValue)
      return;
    const ValueId a = operand(fusion_.node(add), 0), b = operand(fusion_.node(add), 1);
    if (a == kNoValue || b == kNoValue || !is_sum(fusion_.node(add), a, b) ||
        fusion_.type(a) != fusion_.type(sum) || fusion_.type(b) != fusion_.type(sum))
      return;
    Node fused = fusion_.node(permute);
    fused.args[0] = Use{a};
    fused.args[kAddend] = Use{b};
    std::vector<ValueId> operands;
    for_each_operand(std::as_const(fused), [&](ValueId id) { operands.push_back(id); });
    if (!fusion_.take({add, permute}, {result}, operands)) return;
    fusion_.replace(result, fusion_.insert(permute, std::move(fused.op), std::move(fused.args),
                                           {fusion_.type(result)})[0]);
    fusion_.count("sums with the permutation of their rows");
  }

  Fusion fusion_;
};

}  // namespace

Notes fuse_add_permute_tokens(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return AddPermuteFusion(graph).run();
}

}  // namespace rondo::ir
