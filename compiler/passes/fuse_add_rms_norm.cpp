// Fuses a sum with the RMSNorm of its result, in forward and backward.
//
// Before:
//   forward
//     %x = aten.add.Tensor(%a, %b, 1)
//     %y, %inv = rondo.rms_norm.default(%x, %w, eps)
//   backward
//     %gx, %gw = rondo.rms_norm_backward.default(%g, %x, %w, %inv)
//     %s = aten.add.Tensor(%r, %gx, 1)
// After:
//   forward
//     %x, %y, %inv = rondo.add_rms_norm.default(%a, %b, %w, eps)
//   backward
//     %s, %gw = rondo.add_rms_norm_backward.default(%g, %x, %w, %inv, %r)
//
// The forward is fused only within a block, unless the policy saves all for the backward. Otherwise
// %a and %b would leave the previous block and be saved in place of %x.
#include "compiler/analysis/fusion.h"
#include "compiler/ir/storages.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

class AddRmsNormFusion {
 public:
  AddRmsNormFusion(Graph& graph, bool across_blocks)
      : fusion_(graph, "fuse_add_rms_norm"), blocks_(blocks_of_nodes(graph)), across_blocks_(across_blocks) {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i) {
      if (fusion_.node(i).op == "rondo.rms_norm.default") fuse_forward(i);
      if (fusion_.node(i).op == "rondo.rms_norm_backward.default") fuse_backward(i);
    }
    return fusion_.finish();
  }

 private:
  // True where the node adds two tensors of the type of its result, which is row-major.
  bool adds_equal_types(NodeIndex i) const {
    const Node& node = fusion_.node(i);
    const ValueId a = operand(node, 0), b = operand(node, 1);
    if (a == kNoValue || b == kNoValue || !is_sum(node, a, b)) return false;
    const TensorType& type = fusion_.type(fusion_.result(i));
    return type == contiguous(type.dtype, type.sizes) && fusion_.type(a) == type && fusion_.type(b) == type;
  }

  void fuse_forward(NodeIndex norm) {
    const std::vector<Argument> args = fusion_.node(norm).args;
    const ValueId x = operand(fusion_.node(norm), 0), weight = operand(fusion_.node(norm), 1);
    const NodeIndex add = fusion_.maker(x, "aten.add.Tensor");
    if (add == kNoNode || fusion_.readers(x).front() != norm || !adds_equal_types(add) ||
        fusion_.node(add).phase != fusion_.node(norm).phase ||
        !(across_blocks_ || blocks_[add] == blocks_[norm]))
      return;
    const ValueId a = operand(fusion_.node(add), 0), b = operand(fusion_.node(add), 1);
    const ValueId y = fusion_.node(norm).results[0], inverse = fusion_.node(norm).results[1];
    if (!fusion_.take({add, norm}, {x, y, inverse}, {a, b, weight})) return;
    const std::vector<ValueId> results =
        fusion_.insert(norm, "rondo.add_rms_norm.default", {Use{a}, Use{b}, Use{weight}, args[2]},
                       {fusion_.type(x), fusion_.type(y), fusion_.type(inverse)});
    fusion_.replace(x, results[0]);
    fusion_.replace(y, results[1]);
    fusion_.replace(inverse, results[2]);
    fusion_.count("sums with norms");
  }

  void fuse_backward(NodeIndex norm) {
    const ValueId of_x = fusion_.node(norm).results[0], of_weight = fusion_.node(norm).results[1];
    const NodeIndex add = fusion_.only_reader(of_x);
    if (add == kNoNode || !adds_equal_types(add) || fusion_.node(add).phase != fusion_.node(norm).phase)
      return;
    const ValueId other = other_operand(fusion_.node(add), of_x), sum = fusion_.result(add);
    if (fusion_.maker(other) > norm) return;
    std::vector<Argument> args = fusion_.node(norm).args;
    std::vector<ValueId> operands = {other};
    for_each_operand(fusion_.node(norm), [&](ValueId id) { operands.push_back(id); });
    if (!fusion_.take({norm, add}, {sum, of_weight}, operands)) return;
    args.emplace_back(Use{other});
    const std::vector<ValueId> results =
        fusion_.insert(norm, "rondo.add_rms_norm_backward.default", std::move(args),
                       {fusion_.type(sum), fusion_.type(of_weight)});
    fusion_.replace(sum, results[0]);
    fusion_.replace(of_weight, results[1]);
    fusion_.count("sums with the backward of norms");
  }

  Fusion fusion_;
  IdMap<std::int32_t> blocks_;
  bool across_blocks_;
};

}  // namespace

Notes fuse_add_rms_norm(Graph& graph, const CompileOptions& options) {
  if (overwrites(graph)) return left_alone();
  return AddRmsNormFusion(graph, options.memory_policy == MemoryPolicy::none).run();
}

}  // namespace rondo::ir
