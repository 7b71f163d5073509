#include "compiler/trace/step_function.h"

#include "support/error.h"

namespace rondo {
namespace {

constexpr std::pair<at::ScalarType, ir::DType> kDTypes[] = {{at::kDouble, ir::DType::f64},
                                                            {at::kFloat, ir::DType::f32},
                                                            {at::kBFloat16, ir::DType::bf16},
                                                            {at::kHalf, ir::DType::f16},
                                                            {at::kFloat8_e4m3fn, ir::DType::f8e4m3},
                                                            {at::kFloat8_e5m2, ir::DType::f8e5m2},
                                                            {at::kLong, ir::DType::i64},
                                                            {at::kInt, ir::DType::i32},
                                                            {at::kShort, ir::DType::i16},
                                                            {at::kChar, ir::DType::i8},
                                                            {at::kByte, ir::DType::u8},
                                                            {at::kBool, ir::DType::b8}};

}  // namespace

ir::DType to_ir(at::ScalarType dtype) {
  for (const auto& [aten, ours] : kDTypes)
    if (aten == dtype) return ours;
  throw Error(ExitCode::graph, std::string("the graph has no dtype for ") + c10::toString(dtype));
}

at::ScalarType to_aten(ir::DType dtype) {
  for (const auto& [aten, ours] : kDTypes)
    if (ours == dtype) return aten;
  throw Error(ExitCode::graph, "unknown dtype");
}

ir::TensorType type_of(const at::Tensor& tensor) {
  return {to_ir(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec()};
}

}  // namespace rondo
