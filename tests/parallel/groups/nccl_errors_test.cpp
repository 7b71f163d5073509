#include "parallel/groups/nccl_errors.h"

#include <catch2/catch_test_macros.hpp>

namespace rondo {

TEST_CASE("an error of NCCL keeps its kind and its last words") {
  const std::string text =
      "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93, unhandled system error (run "
      "with "
      "NCCL_DEBUG=INFO for details), NCCL version 2.28.9\nncclSystemError: System call (e.g. socket, malloc) "
      "or "
      "external library call failed or device error.\nLast error:\n";
  const std::string kind = "NCCL: unhandled system error (run with NCCL_DEBUG=INFO for details)";
  CHECK(reason_of(text + "Error while creating shared memory segment\nException raised from f") ==
        kind + "; Error while creating shared memory segment");
  CHECK(reason_of(text) == kind);
  CHECK(reason_of("gloo: Connection closed by peer\nframe #0") == "gloo: Connection closed by peer");
  CHECK(reason_of("") == "");
}

TEST_CASE("a lack of memory is found in any line of an error") {
  CHECK(lack_of_memory("NCCL error\nLast error:\nFailed to CUDA calloc 4 bytes\nframe") ==
        "Failed to CUDA calloc 4 bytes");
  CHECK(lack_of_memory("CUDA driver error: out of memory") == "CUDA driver error: out of memory");
  CHECK(lack_of_memory("NCCL error\nremote process exited") == "");
}

}  // namespace rondo
