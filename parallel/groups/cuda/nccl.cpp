// LibTorch and NCCL read their environment variables once, at the first group, so prepare_nccl()
// must run before it. Values that the user has set stay. Some settings make recorded collectives
// hang or lose their memory. A run that records refuses these at the start. The communicator is
// connected eagerly, so that an unreachable peer shows at group creation and not in the first step.
//
// Note [Graph mixing]. With NCCL_GRAPH_MIXING_SUPPORT=1, its default, NCCL puts an event before and
// after each recorded collective, so that collectives outside of recordings may run beside it. With
// 0 it forbids to issue one while a launched recording with the same communicator is in flight,
// whatever the order of streams. So RecordedNccl waits for the device before such a collective. A
// step that only launches has none.
#include "parallel/groups/nccl.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "parallel/groups/float8_bytes.h"
#include "parallel/groups/gpu.h"
#include "support/error.h"

namespace rondo {
namespace {

// Sets a variable of LibTorch, which reads it once, at the first group.
void set_unless_set(const char* name, const char* value) { setenv(name, value, /*overwrite=*/0); }

std::atomic<bool> recording_in_flight{false};

// Note [Graph mixing].
class RecordedNccl final : public c10d::ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;
  using Work = c10::intrusive_ptr<c10d::Work>;

  Work allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    settle();
    return ProcessGroupNCCL::allreduce(tensors, options);
  }
  Work broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    settle();
    return ProcessGroupNCCL::broadcast(tensors, options);
  }
  Work _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options) override {
    settle();
    at::Tensor to = float8_as_bytes(output), from = float8_as_bytes(input);
    return ProcessGroupNCCL::_allgather_base(to, from, options);
  }
  Work allgather_into_tensor_coalesced(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                       const c10d::AllgatherOptions& options) override {
    settle();
    std::vector<at::Tensor> to = float8_as_bytes(outputs), from = float8_as_bytes(inputs);
    return ProcessGroupNCCL::allgather_into_tensor_coalesced(to, from, options);
  }
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override {
    settle();
    return ProcessGroupNCCL::_reduce_scatter_base(output, input, options);
  }
  Work reduce_scatter_tensor_coalesced(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
                                       const c10d::ReduceScatterOptions& options) override {
    settle();
    return ProcessGroupNCCL::reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                     std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override {
    settle();
    return ProcessGroupNCCL::alltoall_base(output, input, output_splits, input_splits, options);
  }

 private:
  void settle() {
    if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
      is_recorded_ = true;
    } else if (is_recorded_ && recording_in_flight.exchange(false)) {
      C10_CUDA_CHECK(cudaDeviceSynchronize());
    }
  }

  bool is_recorded_ = false;
};

c10d::ProcessGroupNCCL& nccl(c10d::Backend& backend) {
  auto* nccl_backend = dynamic_cast<c10d::ProcessGroupNCCL*>(&backend);
  RONDO_ASSERT(nccl_backend != nullptr, "the backend of a GPU group is NCCL");
  return *nccl_backend;
}

}  // namespace

void note_launched_recording() { recording_in_flight = true; }

std::string prepare_nccl(std::size_t recorded_groups) {
  // A late collective or a failed GPU ends the connections; the rank then reports the cause and
  // exits by itself. LibTorch's default would be a signal without a message.
  set_unless_set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2");
  set_unless_set("TORCH_NCCL_ENABLE_MONITORING", "0");
  set_unless_set("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0");
  // Recordings keep the buffers of their collectives registered, and freeing those hangs.
  set_unless_set("NCCL_GRAPH_REGISTER", "0");
  if (recorded_groups == 0) return "";
  set_unless_set("NCCL_GRAPH_MIXING_SUPPORT", "0");
  // Collectives of several groups in parallel branches of a recording have no order otherwise, and
  // ranks that execute them in different orders wait for each other.
  if (recorded_groups > 1) set_unless_set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  if (const char* blocking = std::getenv("TORCH_NCCL_BLOCKING_WAIT");
      blocking != nullptr && *blocking != '\0' && std::string_view(blocking) != "0")
    throw Error(
        ExitCode::environment,
        fmt::format("TORCH_NCCL_BLOCKING_WAIT={} does not go with recorded collectives: the host would query "
                    "events during capture, which CUDA refuses; unset it, or remove cudagraph "
                    "from compile.passes",
                    blocking));
  const std::string_view registers = std::getenv("NCCL_GRAPH_REGISTER");
  if (c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments())
    throw Error(
        ExitCode::environment,
        "expandable_segments:True (PYTORCH_ALLOC_CONF) does not go with recorded collectives: their memory "
        "may move; remove it, or remove cudagraph from compile.passes");
  if (registers != "0")
    throw Error(
        ExitCode::environment,
        fmt::format(
            "NCCL_GRAPH_REGISTER={} does not go with recorded collectives: their teardown hangs; unset "
            "it, or remove cudagraph from compile.passes",
            registers));
  std::string settings = "NCCL_GRAPH_REGISTER=0";
  for (const char* name : {"NCCL_GRAPH_MIXING_SUPPORT", "NCCL_LAUNCH_ORDER_IMPLICIT"})
    if (const char* value = std::getenv(name)) settings += fmt::format(", {}={}", name, value);
  return settings + ", no expandable segments";
}

void refuse_shared_gpu(c10d::Store& store, const RankEnvironment& environment, c10::Device device) {
  const std::string uuid = gpu_facts(device).uuid;
  const auto key = [](int rank) { return fmt::format("gpu/{}", rank); };
  store.set(key(environment.rank), uuid);
  for (int other = environment.rank - environment.local_rank; other < environment.rank; ++other)
    if (store.get_to_str(key(other)) == uuid)
      throw Error(
          ExitCode::environment,
          fmt::format(
              "ranks {} and {} have taken the same GPU: each rank needs its own; start fewer ranks on "
              "a node (--nproc-per-node), or show each rank its own GPU (CUDA_VISIBLE_DEVICES, srun "
              "--gpus-per-task=1). CUDA gives a process only the first MIG device of a list",
              other, environment.rank));
}

c10::intrusive_ptr<c10d::Backend> connect_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                               const NcclMembers& members, c10::Device device,
                                               std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  options->group_name = members.name;
  for (const std::int64_t rank : members.ranks)
    options->global_ranks_in_group.push_back(static_cast<std::uint64_t>(rank));
  auto backend =
      c10::make_intrusive<RecordedNccl>(store, members.rank, static_cast<int>(members.ranks.size()), options);
  backend->eagerConnectSingleDevice(device);
  return backend;
}

std::string failure_of_nccl(c10d::Backend& backend) {
  switch (nccl(backend).getError()) {
    case c10d::ErrorType::SUCCESS:
      return "";
    case c10d::ErrorType::TIMEOUT:
      return "a collective of the first step took longer than comm.init_timeout_seconds";
    case c10d::ErrorType::COMM_ERROR:
      return "a connection between GPUs failed";
    case c10d::ErrorType::REMOTE_ERROR:
      return "another rank's collective failed";
  }
  return "a collective failed";
}

void abort_nccl(c10d::Backend& backend) { nccl(backend).abort(); }

}  // namespace rondo
