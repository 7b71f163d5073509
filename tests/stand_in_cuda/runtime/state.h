// Shared by the parts of the stand-in: CUDA's opaque handles, the lock over all of them, and the
// end of calls.
//
// Work issued to a stream is done at once, on the calling thread: copies and fills are real,
// kernels are only recorded in the journal. In a capture it becomes a node, and a launch of the
// graph does its copies and fills in order. Handles are never freed, so that a use after
// destruction is detected.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/stand_in_cuda/libraries/library.h"
#include "tests/stand_in_cuda/refusals.h"
#include "tests/stand_in_cuda/runtime/journal.h"

struct CUgraphNode_st {
  enum class Kind { kernel, copy, fill, event } kind;
  std::string name;
  std::function<void()> work;             // of copies and fills
  std::vector<stand_in_touched> touches;  // accessed memory, if known: not of kernels
  std::vector<CUgraphNode_st*> after;
  std::shared_ptr<void> communicator;  // of a collective; the graph keeps it
  int priority = 0;                    // of its stream; lower numbers are higher priorities
};

struct CUgraph_st {
  int id = 0;
  bool alive = true;
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};

namespace stand_in {

struct Capture {
  int id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  cudaStream_t origin = nullptr;
  bool active = true, valid = true;
  CUgraph_st* graph = nullptr;
  std::vector<cudaStream_t> streams;
};
using Place = std::vector<CUgraphNode_st*>;  // after these nodes
// Counts, by the id of a stream, its work that comes before something outside of captures.
using Known = std::map<int, std::int64_t>;

}  // namespace stand_in

struct CUstream_st {
  int id = 0, device = 0, priority = 0;
  unsigned flags = 0;
  bool alive = true, legacy = false;
  std::shared_ptr<stand_in::Capture> capture;  // while it is in one
  stand_in::Place last;                        // in the capture
  std::vector<cudaGraphExec_t> in_flight;      // launched since the host last waited
  std::int64_t given = 0, launched = 0;        // its work outside of captures; up to its last launch
  stand_in::Known known;                       // before its next work
};

struct CUevent_st {
  unsigned flags = 0;
  bool alive = true, recorded = false;
  bool behind_a_hang = false;
  std::int64_t launches = 0;                   // of recordings before it
  std::shared_ptr<stand_in::Capture> capture;  // of its last recording in a capture
  stand_in::Place at;
  stand_in::Known known;  // before its last recording outside of captures
  std::chrono::steady_clock::time_point when;
};

struct CUgraphExec_st {
  int id = 0;
  bool alive = true;
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
  std::int64_t launches = 0;
};

namespace stand_in {

std::recursive_mutex& everything();

// The last error of this thread, for cudaGetLastError.
cudaError_t& last_error();

// Writes a line of the journal if the call creates a context on a GPU of another rank: a thread has
// the first GPU until it chooses one.
void note_device(const char* call);

// Executes a call of the runtime: counts it, holds the lock, remembers its error. An injected fault
// replaces `body`.
template <class Body>
cudaError_t called(const char* name, Body&& body) {
  const std::lock_guard lock(everything());
  note_device(name);
  auto error = static_cast<cudaError_t>(journal::count(name));
  if (error == cudaSuccess && !journal::lose(name)) error = body();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
  return error;
}

// Refuses a call that the manual forbids and the runtime refuses: records the row of refusals.h in
// the journal. Invalidates the given captures.
using Captures = std::vector<std::shared_ptr<Capture>>;
cudaError_t refuse(const char* call, Rule rule, const Captures& spoilt = {});

// Reports a use that the manual leaves undefined, such as of a destroyed handle: recorded in the
// journal, and an error here.
cudaError_t misused(const char* call, const char* what, cudaError_t error);

// Returns the captures that forbid this thread potentially unsafe calls
// (cudaThreadExchangeStreamCaptureMode).
Captures prohibiting();
const Captures& captures_under_way();

// Returns the stream itself, or its device's legacy stream for 0; nullptr if it was destroyed.
cudaStream_t resolved(cudaStream_t stream);

// Issues work to a stream.
cudaError_t give(const char* call, cudaStream_t stream, CUgraphNode_st::Kind kind, const std::string& name,
                 std::function<void()> work = {}, std::vector<stand_in_touched> touches = {},
                 const std::shared_ptr<void>& communicator = nullptr);

// Notes work outside of captures, but for NCCL's. Reports work that has no order with a launched
// recording of another stream. It counts as a race, since the memory of kernels is not known.
void note_work(cudaStream_t stream, const char* name, bool is_launch);
// Notes that the host has waited for the stream, or for all of them.
void waited_for(cudaStream_t stream);
void waited_for_all();
// Returns whether the host has waited for the first `work` pieces of work of the stream.
bool host_knows(cudaStream_t stream, std::int64_t work);
bool in_flight(cudaGraphExec_t exec);
// Whether a launched recording for which the host has not waited has a collective of it.
bool in_flight(const std::shared_ptr<void>& communicator);
// Returns how often the host has waited for its last launch, or may have: a copy of unpinned memory
// may wait for the stream ("API synchronization behavior").
std::int64_t waits();
void note_wait();
// Returns the launches of recordings so far.
std::int64_t launches();

// Simulates a kernel that does not end (RONDO_STAND_IN_BUG=hang:N, the Nth launch of a graph):
// nothing is executed after it, and a wait for the device never ends.
void hang(bool hangs = true);
bool hangs();
void wait_while_it_hangs();

int current_device();

// Allocated memory of the stand-in around an address. bytes: 0 if there is none.
struct Range {
  char* begin = nullptr;
  std::size_t bytes = 0;
  bool on_host = false;
  int device = 0;
};
Range range_around(const void* address);
std::int64_t bytes_in_use(int device);

}  // namespace stand_in
