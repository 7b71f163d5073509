#include "ops/kernel/check_operand.h"

#include <sstream>
#include <string>

#include "support/error.h"

namespace rondo {

void check_float(const char* op, const char* name, const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  RONDO_ASSERT(type == at::kFloat || type == at::kBFloat16 || (type == at::kDouble && !x.is_cuda()),
               std::string(op) + " supports float32, bfloat16 and, on the CPU, float64, but " + name +
                   " is " + c10::toString(type) + " on " + x.device().str());
}

void check_operand(const char* op, const char* name, const at::Tensor& x, at::IntArrayRef sizes,
                   at::ScalarType dtype) {
  if (x.sizes() == sizes && x.scalar_type() == dtype) return;
  std::ostringstream what;
  what << op << ": " << name << " is " << x.scalar_type() << " " << x.sizes() << ", but must be " << dtype
       << " " << sizes;
  RONDO_ASSERT(false, what.str());
}

}  // namespace rondo
