// Kernels of the device copy their operands to the host, call the CPU's kernels by a fallback, and
// copy the results back.
#include "tests/compiler/execute/far_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace rondo {
namespace {

using at::Tensor;

constexpr c10::DeviceType kFar = c10::DeviceType::PrivateUse1;
constexpr std::align_val_t kAlignment{64};
constexpr std::uintptr_t kDistance = std::uintptr_t{1} << 62;  // above all addresses of a process

char* far_of(char* near) {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(near) + kDistance);
}
char* near_of(const void* far) {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(far) - kDistance);
}

class FarAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(kFar, 0)};
    char* const block = reserve_far(bytes);
    return {block, block, &release, c10::Device(kFar, 0)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(near_of(to), near_of(from), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  static void release(void* block) { release_far(static_cast<char*>(block)); }
};
FarAllocator allocator;

c10::Stream default_stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kFar, 0)); }

struct FarGuard final : c10::impl::NoOpDeviceGuardImpl<kFar> {
  c10::Device exchangeDevice(c10::Device) const override { return {kFar, 0}; }
  c10::Device getDevice() const override { return {kFar, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return default_stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return default_stream(); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, FarGuard)

struct FarHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  // at::manual_seed seeds every device; this one has no generator.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Device getDeviceFromPtr(void*) const override { return {kFar, 0}; }
};

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

// Returns the same elements as a tensor for the host's kernels.
Tensor near_view(const Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  char* const data = tensor.numel() == 0 ? nullptr : near_of(tensor.const_data_ptr());
  return at::from_blob(data, tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  near_view(to).copy_(near_view(from));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  TORCH_CHECK(from.sizes() == to.sizes(), "the far device resizes nothing");
  return copy_from(from, to, false);
}

void on_the_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  // On a device without its own kernel, LibTorch would decompose it into ops that round
  // differently.
  m.impl("silu_backward", torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
}

}  // namespace

char* reserve_far(std::size_t bytes) { return far_of(static_cast<char*>(::operator new(bytes, kAlignment))); }
void release_far(char* block) { ::operator delete(near_of(block), kAlignment); }

c10::Device far_device() {
  static const c10::Device device = [] {
    c10::register_privateuse1_backend("far");
    at::RegisterPrivateUse1HooksInterface(new FarHooks);
    c10::SetAllocator(kFar, &allocator);
    return c10::Device(kFar, 0);
  }();
  return device;
}

}  // namespace rondo
