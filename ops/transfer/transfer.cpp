#include "ops/transfer/transfer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

namespace rondo {
namespace {

at::Tensor copied(const at::Tensor& x) {
  return at::empty_strided(x.sizes(), x.strides(), x.options()).copy_(x);
}
at::Tensor wait_transfer(const at::Tensor& started) { return started; }

at::Tensor pinned_like(const at::Tensor& x) {
  return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU));
}

void start_transfer(at::Tensor& to, const at::Tensor& from) { to.copy_(from, /*non_blocking=*/true); }
void end_transfer(const at::Tensor&, const at::Tensor&) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("offload(Tensor x) -> Tensor");
  m.def("reload(Tensor x) -> Tensor");
  m.def("wait_transfer(Tensor(a) x) -> Tensor(a)");
  m.def("start_transfer(Tensor(a!) to, Tensor from) -> ()");
  m.def("end_transfer(Tensor to, Tensor from) -> ()");
  m.def("pinned_like(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CompositeExplicitAutograd, m) {
  m.impl("offload", &copied);
  m.impl("reload", &copied);
  m.impl("wait_transfer", &wait_transfer);
  m.impl("start_transfer", &start_transfer);
  m.impl("end_transfer", &end_transfer);
  m.impl("pinned_like", &pinned_like);
}

at::Tensor to_host_memory(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  static const auto pinned_like = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("rondo::pinned_like", "")
                                      .typed<at::Tensor(const at::Tensor&)>();
  at::Tensor pinned = pinned_like.call(x);
  pinned.copy_(x);
  return pinned;
}

}  // namespace rondo
