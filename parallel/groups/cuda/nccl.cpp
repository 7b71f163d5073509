// LibTorch and NCCL read their environment variables once, at the first group, so prepare_nccl()
// must run before it. Values that the user has set stay, but for the watchdog's way to end a group.
// Some settings make recorded collectives hang or lose their memory. A run that records refuses
// these at the start. The communicator is connected eagerly, so that an unreachable peer shows at
// group creation and not in the first step.
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
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "parallel/groups/float8_bytes.h"
#include "parallel/groups/gpu.h"
#include "parallel/groups/nccl_errors.h"
#include "support/error.h"

namespace rondo {
namespace {

// Sets a variable of LibTorch or NCCL that is unset, or empty: NCCL takes its default for an empty
// one.
void set_unless_set(const char* name, const char* value) {
  const char* given = std::getenv(name);
  setenv(name, value, /*overwrite=*/given == nullptr || *given == '\0');
}

// Throws Error(environment) if the variable is set, and not to 0.
void refuse_set(const char* name, const std::string& with) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0' || std::string_view(value) == "0") return;
  throw Error(ExitCode::environment, fmt::format("{}={} does not go with {}", name, value, with));
}
const std::string kUnsetOrDoNotRecord = "; unset it, or remove cudagraph from compile.passes";

// Variables that choose how ranks exchange data. Ranks with different values wait for each other.
constexpr const char* kOfAllRanks[] = {
    "NCCL_ALGO",           "NCCL_PROTO",          "NCCL_BUFFSIZE",      "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE", "NCCL_NTHREADS",       "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",       "NCCL_MAX_CTAS",       "NCCL_P2P_DISABLE",   "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",    "NCCL_IB_DISABLE",     "NCCL_NET",           "NCCL_NET_PLUGIN",
    "NCCL_NVLS_ENABLE",    "NCCL_COLLNET_ENABLE", "NCCL_CHUNK_SIZE",    "NCCL_P2P_NET_CHUNKSIZE"};

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

// Throws Error for what c10d says when it cannot connect a group, except for a lack of memory.
void refuse_connection(const std::string& problem, const NcclMembers& members) {
  if (problem.starts_with("Invalid value for environment variable"))
    throw Error(ExitCode::environment, reason_of(problem) + "; LibTorch reads a whole number there");
  if (lack_of_memory(problem).empty())
    throw Error(
        ExitCode::peer,
        fmt::format("rank {} could not connect its GPU to the {} ranks of group {}: {}. NCCL_DEBUG=WARN "
                    "prints what NCCL met; docs/cuda.md has the usual causes",
                    members.ranks[static_cast<std::size_t>(members.rank)], members.ranks.size(), members.name,
                    reason_of(problem)));
}

c10d::ProcessGroupNCCL& nccl(c10d::Backend& backend) {
  auto* nccl_backend = dynamic_cast<c10d::ProcessGroupNCCL*>(&backend);
  RONDO_ASSERT(nccl_backend != nullptr, "the backend of a GPU group is NCCL");
  return *nccl_backend;
}

}  // namespace

void note_launched_recording() { recording_in_flight = true; }

std::string prepare_nccl(std::size_t recorded_groups) {
  // A late collective or a failed GPU ends the connections; the rank then reports the cause and
  // exits by itself. torchrun and launchers like it set 1, which also ends the watchdog.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/1);
  // LibTorch's default would be a signal without a message.
  set_unless_set("TORCH_NCCL_ENABLE_MONITORING", "0");
  set_unless_set("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0");
  // The watchdog sleeps four times as long between the failure of a collective and the end of its
  // group, for dumps of other ranks. The rank would wait a minute for it, or give up its teardown.
  set_unless_set("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0");
  // Recordings keep the buffers of their collectives registered, and freeing those hangs.
  set_unless_set("NCCL_GRAPH_REGISTER", "0");
  refuse_set("NCCL_COMM_ID", "more than one group: all would meet at one address; unset it");
  if (recorded_groups == 0) return "";
  set_unless_set("NCCL_GRAPH_MIXING_SUPPORT", "0");
  // Collectives of several groups in parallel branches of a recording have no order otherwise, and
  // ranks that execute them in different orders wait for each other.
  if (recorded_groups > 1) set_unless_set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  // c10d still reads the second name.
  for (const char* name : {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"})
    refuse_set(name, "recorded collectives: the host would query events during capture, which CUDA refuses" +
                         kUnsetOrDoNotRecord);
  refuse_set("NCCL_GRAPH_REGISTER", "recorded collectives: their teardown hangs" + kUnsetOrDoNotRecord);
  if (c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments())
    throw Error(
        ExitCode::environment,
        "expandable_segments:True (PYTORCH_ALLOC_CONF) does not go with recorded collectives: their memory "
        "may move; remove it, or remove cudagraph from compile.passes");
  std::string settings;
  for (const char* name : {"NCCL_GRAPH_REGISTER", "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_LAUNCH_ORDER_IMPLICIT"})
    if (const char* value = std::getenv(name)) settings += fmt::format("{}={}, ", name, value);
  return settings + "no expandable segments";
}

std::vector<std::string> nccl_settings() {
  int version = 0;
  ncclGetVersion(&version);
  std::vector<std::string> settings = {fmt::format("NCCL (library) = {}", version)};
  for (const char* name : kOfAllRanks)
    if (const char* value = std::getenv(name)) settings.push_back(fmt::format("{} = {}", name, value));
  return settings;
}

std::vector<std::string> slow_settings() {
  std::vector<std::string> slow;
  const auto is_1 = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::string_view(value) == "1";
  };
  if (is_1("CUDA_DEVICE_MAX_CONNECTIONS"))
    slow.emplace_back(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 gives the GPU the work of all streams in one queue, so that "
        "collectives may wait for products that they could run beside; unset it");
  if (is_1("CUDA_LAUNCH_BLOCKING"))
    slow.emplace_back(
        "CUDA_LAUNCH_BLOCKING=1 makes the host wait for each kernel that is not recorded, and for the other "
        "rank in each message of a pipeline; unset it unless you look for a failing kernel");
  return slow;
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
  try {
    auto backend = c10::make_intrusive<RecordedNccl>(store, members.rank,
                                                     static_cast<int>(members.ranks.size()), options);
    backend->eagerConnectSingleDevice(device);
    return backend;
  } catch (const c10::Error& error) {
    refuse_connection(error.what_without_backtrace(), members);
    throw;
  }
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
