// The ops of passes/offload.cpp: a copy on the device where the operand lies, done when it is started; the executor
// brings it where it belongs. Replays know that place, and call `start_transfer` and `end_transfer` in their stead: a
// copy in the order of the stream, or in the background where the device can (cuda/transfers.cpp).
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

namespace rondo {
namespace {

at::Tensor copied(const at::Tensor& x) {
  return at::empty_strided(x.sizes(), x.strides(), x.options()).copy_(x);
}
at::Tensor wait_transfer(const at::Tensor& started) { return started; }

void start_transfer(at::Tensor& to, const at::Tensor& from) { to.copy_(from, /*non_blocking=*/true); }
void end_transfer(const at::Tensor&, const at::Tensor&) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("offload(Tensor x) -> Tensor");
  m.def("reload(Tensor x) -> Tensor");
  m.def("wait_transfer(Tensor(a) x) -> Tensor(a)");
  m.def("start_transfer(Tensor(a!) to, Tensor from) -> ()");
  m.def("end_transfer(Tensor to, Tensor from) -> ()");
}
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) {
  m.impl("offload", &copied);
  m.impl("reload", &copied);
  m.impl("wait_transfer", &wait_transfer);
  m.impl("start_transfer", &start_transfer);
  m.impl("end_transfer", &end_transfer);
}

}  // namespace rondo
