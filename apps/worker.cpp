// `rondo-worker`: the executable that links LibTorch. Users type `rondo`, which execs this.
#include <torch/version.h>

#include <cstdio>
#include <exception>

#include "apps/worker_commands.h"
#include "parallel/error.h"
#include "trainer/device_info.h"

namespace rondo {
namespace {

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[1] == "--version") {
    std::printf("rondo-worker %s, LibTorch %s, CUDA: %s\n", RONDO_VERSION, TORCH_VERSION,
                cuda_build_info().c_str());
    return 0;
  }
  if (words.size() >= 2 && words[1] == "train") return run_train({words.begin() + 2, words.end()}, words);
  throw Error(ExitCode::usage, "rondo-worker is started by rondo; type `rondo --help`");
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  try {
    return rondo::run({argv, argv + argc});
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", error.what());
    return static_cast<int>(rondo::ExitCode::internal);
  }
}
