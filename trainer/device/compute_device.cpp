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

void require_grouped_float8(const JobConfig& config, const GpuFacts& gpu) {
  const std::optional<Float8Options> float8 = float8_expert_options(config);
  if (!float8 || float8->emulate || has_float8_grouped_products(float8->recipe, gpu.major)) return;
  if (float8->recipe != Float8Recipe::rowwise_with_gw_hp)
    throw Error(ExitCode::environment,
                fmt::format("model.converters = [\"{0}\"]: no GPU runs grouped products of \"{1}\" in this "
                            "version; {0}.emulate = true works on any GPU",
                            float8_expert_section(config), name_of(float8->recipe)));
  throw Error(ExitCode::environment,
              fmt::format("model.converters = [\"quantize.grouped_mm.float8\"]: {} has compute capability "
                          "{}.{}, and products of experts in float8 need 9.0 (Hopper); "
                          "quantize.grouped_mm.float8.emulate = true works on any GPU",
                          gpu.name, gpu.major, gpu.minor));
}

void require_float8(const JobConfig& config, const GpuFacts& gpu) {
  const std::optional<Float8Options> float8 = float8_options(config);
  if (!float8 || float8->emulate || has_float8_products(float8->recipe, gpu.major, gpu.minor)) return;
  if (!config.model.converts_to_float8())
    throw Error(ExitCode::environment,
                fmt::format("model.converters = [\"{0}\"]: no GPU runs products of \"{1}\" in this version; "
                            "{0}.emulate = true works on any GPU",
                            float8_section(config), name_of(float8->recipe)));
  throw Error(
      ExitCode::environment,
      fmt::format(
          "model.converters = [\"float8\"]: {} has compute capability {}.{}, and float8 \"{}\" needs {}; "
          "quantize.linear.float8.emulate = true works on any GPU",
          gpu.name, gpu.major, gpu.minor, name_of(float8->recipe),
          float8->recipe == Float8Recipe::blockwise ? "9.0 (Hopper)" : "8.9 or above"));
}

}  // namespace

ComputeDevice take_device(const JobConfig& config, const RankEnvironment& environment) {
  ComputeDevice result;
  if (config.metrics.peak_tflops > 0) result.peak_flops = config.metrics.peak_tflops * 1e12;
  if (device_of(config) == TargetDevice::cpu) {
    result.memory_bytes = read_machine().memory_bytes;
    result.room = memory_room(environment.local_world_size);
    result.tensor_bytes = result.room.bytes;
    return result;
  }
  check_nccl(environment.world_size);
  // cuBLAS reads it at its first use. Without it, its results depend on what else is running.
  if (config.debug.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  result.device = take_gpu(environment.local_rank, environment.local_world_size);
  prepare_allocator(result.device);
  at::globalContext().lazyInitDevice(at::kCUDA);  // enables the allocator's statistics
  const GpuFacts facts = gpu_facts(result.device);
  require_float8(config, facts);
  require_grouped_float8(config, facts);
  set_attention_kernel(config.compile.attention);
  result.name = facts.name;
  result.memory_bytes = facts.memory_bytes;
  result.tensor_bytes = facts.memory_bytes - ir::device_model_for(TargetDevice::cuda).reserve_bytes;
  result.room = {facts.free_bytes, "free on its GPU"};
  if (const ir::DeviceModel* model = ir::find_device_model(facts.name); model && !result.peak_flops)
    result.peak_flops = model->peak_16bit_flops_per_s;
  return result;
}

}  // namespace rondo
