// `rondo-worker`: the executable that links LibTorch. Users type `rondo`, which execs this.
#include <c10/util/Logging.h>
#include <torch/version.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "apps/worker_commands.h"
#include "support/error.h"
#include "trainer/device/device_info.h"

namespace rondo {
namespace {

// LibTorch logs what it also throws, with pages of stack frames; what users need of it our own messages say.
// TORCH_CPP_LOG_LEVEL brings them back.
void quieten_libtorch() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
    FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  } else {
    c10::initLogging();
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[1] == "--version") {
    std::printf("rondo-worker %s, LibTorch %s, CUDA: %s\n", RONDO_VERSION, TORCH_VERSION,
                cuda_build_info().c_str());
    return 0;
  }
  if (words.size() >= 2 && words[1] == "train") return run_train({words.begin() + 2, words.end()}, words);
  if (words.size() >= 2 && words[1] == "convert") return run_convert({words.begin() + 2, words.end()});
  if (words.size() >= 2 && words[1] == "logits") return run_logits({words.begin() + 2, words.end()});
  if (words.size() >= 2 && words[1] == "plan") return run_plan({words.begin() + 2, words.end()});
  throw Error(ExitCode::usage, "rondo-worker is started by rondo; type `rondo --help`");
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  try {
    rondo::quieten_libtorch();
    return rondo::run({argv, argv + argc});
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "rondo: error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rondo: internal error: %s\n", error.what());
    return static_cast<int>(rondo::ExitCode::internal);
  }
}
