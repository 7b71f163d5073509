// NCCL without data: a collective is a kernel in its stream, and ranks do not wait for each other.
// The calls of a group, in order, are hashed into one number, so that a test detects ranks that
// disagree. A communicator takes device memory, as the real one does.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "tests/stand_in_cuda/libraries/library.h"

struct ncclComm {
  int number = 0, ranks = 0, rank = 0, device = 0;
  std::uint64_t group = 0, calls = 0, order = 14695981039346656037ull;
  void* memory = nullptr;
  // shared with the graphs that have its collectives
  std::shared_ptr<void> in_graphs = std::make_shared<int>();
};

namespace {

std::atomic<int> made{0}, alive{0};

template <class... Numbers>
void line(const char* format, Numbers... numbers) {
  char text[256];
  std::snprintf(text, sizeof text, format, numbers...);
  stand_in_line(text);
}

// NCCL waits until no graph has a collective of the communicator (its src/init.cc,
// commDestroySync), whether it is destroyed or aborted. LibTorch aborts a communicator again as
// null, if its watchdog did so first.
ncclResult_t end(ncclComm_t comm, const char* how) {
  if (comm == nullptr) return ncclSuccess;
  line("communicator_ends number=%d graphs=%d", comm->number,
       static_cast<int>(comm->in_graphs.use_count()) - 1);
  while (comm->in_graphs.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  line("communicator_%s number=%d group=%llx calls=%llu order=%llx", how, comm->number,
       static_cast<unsigned long long>(comm->group), static_cast<unsigned long long>(comm->calls),
       static_cast<unsigned long long>(comm->order));
  cudaFree(comm->memory);
  delete comm;
  --alive;
  return ncclSuccess;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

void note(ncclComm_t comm, const char* name, std::size_t from_count, std::size_t to_count,
          ncclDataType_t type) {
  ++comm->calls;
  for (const char* letter = name; *letter != 0; ++letter)
    comm->order = (comm->order ^ *letter) * 1099511628211ull;
  for (const std::uint64_t number : {std::uint64_t(from_count), std::uint64_t(to_count), std::uint64_t(type)})
    comm->order = (comm->order ^ number) * 1099511628211ull;
}

ncclResult_t launch(const char* name, const stand_in_touched* touched, int touches, ncclComm_t comm,
                    cudaStream_t stream) {
  return stand_in_launch(name, stream, touched, touches, comm->in_graphs) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

std::atomic<bool> hangs{false};

// Returns the injected error of a call. All errors of a GPU that has failed are one of NCCL's.
// ncclInProgress is a collective that succeeds and waits for another rank until it is aborted.
ncclResult_t fault(const char* call) {
  const int code = stand_in_fault(call);
  if (code == ncclInProgress) {
    stand_in_hang(hangs = true);
    return ncclSuccess;
  }
  return code < ncclNumResults ? static_cast<ncclResult_t>(code) : ncclUnhandledCudaError;
}

// `from` has `from_count` elements, `to` has `to_count`.
ncclResult_t collective(const char* name, const void* from, std::size_t from_count, void* to,
                        std::size_t to_count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = fault(name); error != ncclSuccess) return error;
  note(comm, name, from_count, to_count, type);
  const stand_in_touched touched[] = {{from, from_count * bytes_of(type), false},
                                      {to, to_count * bytes_of(type), true}};
  return launch(name, touched, 2, comm, stream);
}

// Both ends of a message record the same call.
ncclResult_t message(const char* name, const void* place, std::size_t elements, ncclDataType_t type,
                     bool written, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t error = fault(name); error != ncclSuccess) return error;
  note(comm, "message", elements, elements, type);
  const stand_in_touched touched = {place, elements * bytes_of(type), written};
  return launch(name, &touched, 1, comm, stream);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  }
}
const char* ncclGetLastError(ncclComm_t) { return "Bootstrap : no socket interface found"; }

// --- communicators ---

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  for (char& byte : id->internal) byte = static_cast<char>(random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  static const bool told = (stand_in_at_exit("communicators", [] { return std::int64_t(alive); }), true);
  (void)told;
  if (const ncclResult_t error = fault(__func__); error != ncclSuccess) return error;
  auto* const one = new ncclComm;
  one->number = ++made;
  one->ranks = ranks;
  one->rank = rank;
  cudaGetDevice(&one->device);
  std::memcpy(&one->group, id.internal, sizeof one->group);
  if (cudaMalloc(&one->memory, 4 << 20) != cudaSuccess) return ncclUnhandledCudaError;
  ++alive;
  line("communicator_made number=%d ranks=%d rank=%d group=%llx", one->number, ranks, rank,
       static_cast<unsigned long long>(one->group));
  *comm = one;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return end(comm, "destroyed"); }
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (hangs.exchange(false)) stand_in_hang(false);
  return end(comm, "aborted");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  const int code = stand_in_fault(__func__);
  *error = code < ncclNumResults ? static_cast<ncclResult_t>(code) : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

// --- collectives ---

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", from, count, to, count, type, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", from, count * comm->ranks, to, count, type, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", from, count, to, count * comm->ranks, type, comm, stream);
}
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return collective("ncclAlltoAll", from, count * comm->ranks, to, count * comm->ranks, type, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBroadcast", from, count, to, count, type, comm, stream);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("ncclSend", from, count, type, false, comm, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("ncclRecv", to, count, type, true, comm, stream);
}
