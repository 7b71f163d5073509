// Implements compiler/execute/cuda/*.h in a program without CUDA. No run reaches these functions,
// since job.device = "cuda" is refused earlier.
#include "compiler/execute/cuda/cuda_device.h"
#include "compiler/execute/cuda/placing_allocator.h"
#include "support/error.h"

namespace rondo::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::environment,
              "this program was built without CUDA; build the preset cuda: scripts/build.sh cuda");
}

}  // namespace

std::shared_ptr<ReplayDevice> make_device(int) { refuse(); }
void install_placing_allocator() { refuse(); }

}  // namespace rondo::cuda
