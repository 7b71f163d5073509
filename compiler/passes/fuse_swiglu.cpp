//   forward                                        forward
//     %3 = aten.silu.default(%1)                     %4 = rondo.swiglu.default(%1, %2)
//     %4 = aten.mul.Tensor(%3, %2)
//   backward                                 ->    backward
//     %6 = aten.mul.Tensor(%5, %3)                   %8, %6 = rondo.swiglu_backward.default(%5, %1, %2)
//     %7 = aten.mul.Tensor(%5, %2)
//     %8 = aten.silu_backward.default(%7, %1)
#include <algorithm>

#include "compiler/analysis/fusion.h"
#include "compiler/passes/passes.h"

namespace rondo::ir {
namespace {

constexpr const char* kGatedUnits = "gated units";

class SwigluFusion {
 public:
  explicit SwigluFusion(Graph& graph) : fusion_(graph, "fuse_swiglu") {}

  Notes run() {
    for (NodeIndex i = 0; i < fusion_.graph().node_count(); ++i)
      if (fusion_.node(i).op == "aten.silu.default" && fusion_.node(i).phase == Phase::forward) look_at(i);
    return fusion_.finish();
  }

 private:
  bool fits(ValueId id, const TensorType& type) const { return id != kNoValue && fusion_.type(id) == type; }

  void look_at(NodeIndex silu) {
    const ValueId gate = operand(fusion_.node(silu), 0), activated = fusion_.result(silu);
    const NodeIndex product = fusion_.find_reader(activated, [&](const Node& node) {
      return node.op == "aten.mul.Tensor" && node.phase == Phase::forward;
    });
    if (product == kNoNode) return;
    const ValueId up = other_operand(fusion_.node(product), activated);
    const TensorType type = fusion_.type(gate);
    const bool has_dtype = type.dtype == DType::f32 || type.dtype == DType::bf16 || type.dtype == DType::f64;
    const bool is_type_of_kernel = has_dtype && type == contiguous(type.dtype, type.sizes);
    if (!is_type_of_kernel || !fits(activated, type) || !fits(up, type) ||
        !fits(fusion_.result(product), type))
      return fusion_.leave(silu, "not of one contiguous type, f64, f32 or bf16");
    const NodeIndex grad_up = fusion_.find_reader(activated, [&](const Node& node) {
      return node.op == "aten.mul.Tensor" && node.phase == Phase::backward;
    });
    if (grad_up == kNoNode) return fuse_forward(silu, product, gate, up);
    fuse_both(silu, product, grad_up, gate, up);
  }

  // Without a backward, or with one that does not need the activated gate.
  void fuse_forward(NodeIndex silu, NodeIndex product, ValueId gate, ValueId up) {
    const ValueId y = fusion_.result(product);
    if (!fusion_.take({silu, product}, {y}, {gate, up}))
      return fusion_.leave(silu, "an inner value has another reader");
    fusion_.replace(y, insert_forward(product, gate, up));
    fusion_.count(kGatedUnits);
  }

  ValueId insert_forward(NodeIndex before, ValueId gate, ValueId up) {
    return fusion_.insert(before, "rondo.swiglu.default", {Use{gate}, Use{up}}, {fusion_.type(gate)})[0];
  }

  void fuse_both(NodeIndex silu, NodeIndex product, NodeIndex grad_up, ValueId gate, ValueId up) {
    const TensorType type = fusion_.type(gate);
    const ValueId grad = other_operand(fusion_.node(grad_up), fusion_.result(silu));
    NodeIndex of_silu = kNoNode;
    const NodeIndex grad_activated = fusion_.find_reader(up, [&](const Node& node) {
      if (!is_product(node, grad, up) || node.phase != Phase::backward) return false;
      const ValueId made = node.results[0];
      of_silu = fusion_.find_reader(made, [&](const Node& reader) {
        return reader.op == "aten.silu_backward.default" && operand(reader, 0) == made &&
               operand(reader, 1) == gate;
      });
      return of_silu != kNoNode;
    });
    if (grad_activated == kNoNode || !fits(grad, type) || !fits(fusion_.result(of_silu), type))
      return fusion_.leave(silu, "the backward looks otherwise");
    const ValueId y = fusion_.result(product), for_gate = fusion_.result(of_silu),
                  for_up = fusion_.result(grad_up);
    if (!fusion_.take({silu, product, grad_up, grad_activated, of_silu}, {y, for_gate, for_up},
                      {grad, gate, up}))
      return fusion_.leave(silu, "an inner value has another reader");
    fusion_.replace(y, insert_forward(product, gate, up));
    const std::vector<ValueId> made =
        fusion_.insert(std::min(grad_up, grad_activated), "rondo.swiglu_backward.default",
                       {Use{grad}, Use{gate}, Use{up}}, {type, type});
    fusion_.replace(for_gate, made[0]);
    fusion_.replace(for_up, made[1]);
    fusion_.count(std::string(kGatedUnits) + " with their backward");
  }

  Fusion fusion_;
};

}  // namespace

Notes fuse_swiglu(Graph& graph, const CompileOptions&) {
  if (overwrites(graph)) return left_alone();
  return SwigluFusion(graph).run();
}

}  // namespace rondo::ir
