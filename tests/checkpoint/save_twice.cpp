// `save_twice ROOT`: saves steps 2 and 3 into ROOT, and then keeps two. Reports a failure and tries
// the next step, as a training run does. Exit code: of the last error, or 0.
#include <cstdio>

#include "support/error.h"
#include "tests/checkpoint/states.h"

namespace {

int last_code = 0;

void attempt(const std::function<void()>& action) {
  try {
    action();
  } catch (const rondo::Error& error) {
    std::fprintf(stderr, "save_twice: error: %s\n", error.what());
    last_code = static_cast<int>(error.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rondo::checkpoint;
  if (argc != 2) return 2;
  const std::filesystem::path root = argv[1];
  attempt([&] { save(root, 2); });
  attempt([&] { save(root, 3); });
  attempt([&] { prune(root, 2); });
  return last_code;
}
