#include "ops/kernel/launch.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <string>

#include "support/error.h"

namespace rondo::cuda {

Launch::Launch(const at::Tensor& tensor, const char* op)
    : op_(op),
      before_(c10::cuda::ExchangeDevice(tensor.device().index())),
      stream_(c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream()) {}

Launch::~Launch() { c10::cuda::MaybeExchangeDevice(before_); }

Element Launch::element(const at::Tensor& x) const {
  switch (x.scalar_type()) {
    case at::kFloat:
      return Element::f32;
    case at::kBFloat16:
      return Element::bf16;
    case at::kDouble:
      return Element::f64;
    default:
      throw Error(ExitCode::internal, std::string(op_) + " does not support elements of " +
                                          c10::toString(x.scalar_type()) + " on CUDA");
  }
}

void Launch::check() const { C10_CUDA_KERNEL_LAUNCH_CHECK(); }

}  // namespace rondo::cuda
