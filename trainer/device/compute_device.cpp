#include "trainer/device/compute_device.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <cstdlib>

#include "compiler/compile.h"
#include "compiler/execute/cpu_memory.h"
#include "compiler/plan/devices/devices.h"
#include "config/derived/device.h"
#include "config/derived/float8.h"
#include "ops/attention/attention_choice.h"
#include "parallel/groups/gpu.h"
#include "support/error.h"
#include "support/machine/machine.h"
#include "trainer/device/device_info.h"

namespace rondo {

std::int64_t ComputeDevice::peak_bytes() const {
  return device.is_cpu() ? cpu_memory::peak_bytes() : gpu_peak_bytes(device);
}

void ComputeDevice::reset_peak() const {
  cpu_memory::reset_peak();
  if (device.is_cuda()) reset_gpu_peak(device);
}

namespace {

void require_float8(const JobConfig& config, const GpuFacts& gpu) {
  const std::optional<Float8Options> float8 = float8_options(config);
  if (!float8 || float8->emulate || has_float8_products(float8->recipe, gpu.major, gpu.minor)) return;
  throw Error(
      ExitCode::environment,
      fmt::format(
          "model.converters = [\"float8\"]: {} has compute capability {}.{}, and float8 \"{}\" needs {}; "
          "quantize.linear.float8.emulate = true works on any",
          gpu.name, gpu.major, gpu.minor, name_of(float8->recipe),
          float8->recipe == Float8Recipe::blockwise ? "9.0 (Hopper)" : "8.9 or above"));
}

}  // namespace

ComputeDevice take_device(const JobConfig& config, const RankEnvironment& environment) {
  ComputeDevice taken;
  if (device_of(config) == TargetDevice::cpu) {
    taken.memory_bytes = read_machine().memory_bytes;
    taken.tensor_bytes = taken.memory_bytes / environment.local_world_size;
    return taken;
  }
  check_nccl(environment.world_size);
  // cuBLAS reads it when it is first used; without it its results depend on what else runs.
  if (config.debug.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  taken.device = take_gpu(environment.local_rank, environment.local_world_size);
  prepare_allocator(taken.device);
  at::globalContext().lazyInitDevice(at::kCUDA);  // so that the allocator has statistics from here on
  const GpuFacts facts = gpu_facts(taken.device);
  require_float8(config, facts);
  set_attention_kernel(config.compile.attention);
  taken.name = facts.name;
  taken.memory_bytes = facts.memory_bytes;
  taken.tensor_bytes = facts.memory_bytes - ir::device_model_for(TargetDevice::cuda).reserve_bytes;
  if (const ir::DeviceModel* model = ir::find_device_model(facts.name))
    taken.peak_flops = model->peak_16bit_flops_per_s;
  return taken;
}

}  // namespace rondo
