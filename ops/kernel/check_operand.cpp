#include "ops/kernel/check_operand.h"

#include <sstream>
#include <string>

#include "support/error.h"

namespace rondo {

void check_f32_or_bf16(const char* op, const char* name, const at::Tensor& x) {
  RONDO_ASSERT(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
               std::string(op) + " is for float32 and bfloat16, and " + name + " is " +
                   c10::toString(x.scalar_type()));
}

void check_operand(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef sizes,
                   at::ScalarType dtype) {
  if (x.sizes() == sizes && x.scalar_type() == dtype) return;
  std::ostringstream what;
  what << op << ": " << name << " is " << x.scalar_type() << " " << x.sizes() << ", and has to be " << dtype
       << " " << sizes;
  RONDO_ASSERT(false, what.str());
}

}  // namespace rondo
