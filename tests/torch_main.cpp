// The main of tests that link LibTorch. Destroys no static objects: LibTorch's destructors take
// back what its load registered, a quarter of the time of a process that only loads it.
#include <catch2/catch_session.hpp>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  std::fflush(nullptr);
  std::quick_exit(failed);
}
