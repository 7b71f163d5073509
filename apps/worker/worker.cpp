// `rondo-worker`: the executable that links LibTorch. Users run `rondo`, which execs it.
#include <c10/util/Logging.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>

#include "apps/exit_code.h"
#include "apps/worker/worker_commands.h"
#include "parallel/groups/gpu.h"
#include "support/process_start.h"
#include "support/version.h"
#include "trainer/device/device_info.h"

namespace rondo {
namespace {

// Silences LibTorch's log, which repeats exceptions with pages of stack frames; Rondo's own
// messages have what users need. TORCH_CPP_LOG_LEVEL enables it again.
void quieten_libtorch() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
    FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  } else {
    c10::initLogging();
  }
}

int run(const std::vector<std::string>& words) {
  const std::string name = words.size() > 1 ? words[1] : "";
  if (name == "--version" && words.size() == 2) {
    std::printf("rondo-worker %s, LibTorch %s, CUDA: %s\n", version(), TORCH_VERSION,
                cuda_build_info().c_str());
    return 0;
  }
  if (name == "--gpus" && words.size() == 2) {
    std::printf("%s\n", gpus_in_words().c_str());
    return 0;
  }
  const std::vector<std::string> args(words.begin() + std::min(std::ssize(words), std::ptrdiff_t{2}),
                                      words.end());
  if (name == "train") return run_train(args, words);
  if (name == "check") return run_check(args);
  if (name == "convert") return run_convert(args);
  if (name == "generate") return run_generate(args);
  if (name == "eval") return run_eval(args);
  if (name == "logits") return run_logits(args);
  if (name == "plan") return run_plan(args);
  if (name == "tune") return run_tune(args);
  if (name == "play") return run_play(args);
  throw Error(ExitCode::usage, "rondo-worker is started by rondo; run `rondo --help`");
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::prepare_process();
  rondo::end_process(rondo::exit_code_of([&] {
    rondo::quieten_libtorch();
    return rondo::run({argv, argv + argc});
  }));
}
