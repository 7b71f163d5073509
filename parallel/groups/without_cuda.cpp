// Implements gpu.h, nccl.h and gpu_records.h in a program without CUDA. No run reaches these
// functions, since job.device = "cuda" is refused earlier. The records are empty.
#include "parallel/groups/gpu.h"
#include "parallel/groups/gpu_records.h"
#include "parallel/groups/nccl.h"
#include "support/error.h"

namespace rondo {
namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::environment,
              "this program was built without CUDA; build the preset cuda: scripts/build.sh cuda");
}

}  // namespace

c10::Device take_gpu(int, int) { refuse(); }
GpuFacts gpu_facts(c10::Device) { refuse(); }
std::string gpus_in_words() { return ""; }
std::int64_t gpu_peak_bytes(c10::Device) { refuse(); }
void reset_gpu_peak(c10::Device) { refuse(); }
c10::intrusive_ptr<c10d::Backend> connect_nccl(const c10::intrusive_ptr<c10d::Store>&, const NcclMembers&,
                                               c10::Device, std::chrono::milliseconds) {
  refuse();
}
void refuse_shared_gpu(c10d::Store&, const RankEnvironment&, c10::Device) { refuse(); }
std::string failure_of_nccl(c10d::Backend&) { refuse(); }
void abort_nccl(c10d::Backend&) { refuse(); }
std::string prepare_nccl(std::size_t) { refuse(); }
std::vector<std::string> nccl_settings() { refuse(); }
std::vector<std::string> slow_settings() { refuse(); }
void size_nccl_record(std::size_t) { refuse(); }
std::string nccl_record_json() { return ""; }
std::string gpu_memory_json() { return ""; }

}  // namespace rondo
