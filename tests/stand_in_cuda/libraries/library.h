// The interface between the stand-ins of cuBLAS and NCCL and that of the runtime.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

inline std::size_t element_bytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_64F:
      return 8;
    default:
      return 2;
  }
}

extern "C" {

// Memory that work reads or writes.
struct stand_in_touched {
  const void* begin;
  std::size_t bytes;
  bool written;
};

// Issues a kernel of a library to a stream: it is recorded in the journal, or becomes a node of the
// capture. `communicator` is that of a collective; a graph with the node owns it.
cudaError_t stand_in_launch(const char* name, cudaStream_t stream, const stand_in_touched* touched, int count,
                            const std::shared_ptr<void>& communicator);

// Counts a call of a library by its name. Returns the error that it must return
// (RONDO_STAND_IN_FAIL), normally 0.
int stand_in_fault(const char* call);

// Begins or ends a kernel that does not end by itself.
void stand_in_hang(bool hangs);

// Writes a line of the journal.
void stand_in_line(const char* text);

// Adds a number to the journal's summary.
void stand_in_at_exit(const char* name, std::int64_t (*live)());

}  // extern "C"
