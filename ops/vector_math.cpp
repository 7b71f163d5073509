// The first call of each function of MKL's vector math, on one thread.
//
// LibTorch computes exp, log and their like on the CPU in chunks, one a thread, with MKL. MKL chooses a
// kernel in the first call, and not safely: where two threads make it at once, one of them may compute its
// chunk at a lower accuracy, 1e-4 off, once in a process (seen in one of a hundred runs of a test on two busy
// cores, with LibTorch 2.11). So each is called here while the program is loaded and no other thread is
// there.
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
