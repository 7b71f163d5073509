// Calls each function of MKL's vector math once, on one thread.
//
// LibTorch computes exp, log and similar functions on the CPU in chunks, one per thread, with MKL.
// MKL chooses a kernel in the first call, which is not thread-safe. If two threads make that call
// at once, one may compute its chunk at a lower accuracy, 1e-4 off, once per process. This was seen
// in one of a hundred runs of a test on two busy cores, with LibTorch 2.11. So each function is
// called here while the program is loaded, before any other thread exists.
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>

namespace rondo {
namespace {

bool call_each() {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::ones({16}, type);  // too few elements for a second thread
    for (const auto function :
         {at::exp, at::expm1, at::log, at::log1p, at::sin, at::cos, at::sqrt, at::tanh, at::erf})
      function(x);
  }
  return true;
}

[[maybe_unused]] const bool called = call_each();

}  // namespace
}  // namespace rondo
