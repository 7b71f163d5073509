// What the parts of the stand-in share: CUDA's opaque handles, the lock over all of them, and how a call
// ends.
//
// Work that is given to a stream is done at once, on the calling thread: copies and fills are real, kernels
// are only written down. In a capture it becomes a node, and a launch of the graph does its copies and fills
// in their order. Handles are never freed, so that one that is used after it was destroyed is known as such.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <functional>
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
  std::vector<stand_in_touched> touches;  // what it reads and writes, where that is known: not of kernels
  std::vector<CUgraphNode_st*> after;
  std::shared_ptr<void> kept;
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
using Place = std::vector<CUgraphNode_st*>;  // behind these nodes

}  // namespace stand_in

struct CUstream_st {
  int id = 0, device = 0;
  unsigned flags = 0;
  bool alive = true, legacy = false;
  std::shared_ptr<stand_in::Capture> capture;  // while it is in one
  stand_in::Place last;                        // there
  std::vector<cudaGraphExec_t> in_flight;      // launched since the host last waited
};

struct CUevent_st {
  unsigned flags = 0;
  bool alive = true, recorded = false;
  bool behind_a_hang = false;
  std::int64_t launches = 0;                   // of recordings before it
  std::shared_ptr<stand_in::Capture> capture;  // where it was last recorded in one
  stand_in::Place at;
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

// What cudaGetLastError tells this thread.
cudaError_t& last_error();

// A call of the runtime: counted, under the lock, its error remembered. An injected fault takes the place of
// `body`.
template <class Body>
cudaError_t called(const char* name, Body&& body) {
  const std::lock_guard lock(everything());
  auto error = static_cast<cudaError_t>(journal::count(name));
  if (error == cudaSuccess && !journal::lose(name)) error = body();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
  return error;
}

// What the manual forbids and the runtime answers with an error: the row of refusals.h, told in the journal.
// The captures named are invalid from then on.
using Captures = std::vector<std::shared_ptr<Capture>>;
cudaError_t refuse(const char* call, Rule rule, const Captures& spoilt = {});

// What the manual leaves undefined, such as a handle that was destroyed: told in the journal, and an error
// here.
cudaError_t misused(const char* call, const char* what, cudaError_t error);

// Captures because of which this thread must not make a potentially unsafe call
// (cudaThreadExchangeStreamCaptureMode).
Captures prohibiting();
const Captures& captures_under_way();

// The stream itself, or its device's legacy stream where it is 0; nullptr where it was destroyed.
cudaStream_t resolved(cudaStream_t stream);

// Gives work to a stream.
cudaError_t give(const char* call, cudaStream_t stream, CUgraphNode_st::Kind kind, const std::string& name,
                 std::function<void()> work = {}, std::vector<stand_in_touched> touches = {},
                 const std::shared_ptr<void>& kept = nullptr);

// The host has waited for the stream, or for all of them.
void waited_for(cudaStream_t stream);
void waited_for_all();
bool in_flight(cudaGraphExec_t exec);
// How often the host has waited for what was launched last, or may have: a copy of its memory that is not
// pinned may wait for the stream ("API synchronization behavior").
std::int64_t waits();
void note_wait();
// Launches of recordings so far.
std::int64_t launches();

// A kernel that does not end (RONDO_STAND_IN_BUG=hang:N, the Nth launch of a graph): nothing is done any
// more, and whoever waits for the device waits for ever.
void hang();
bool hangs();
void wait_while_it_hangs();

int current_device();

// Memory that the stand-in gave out and that is not freed, around an address. bytes: 0 where there is none.
struct Range {
  char* begin = nullptr;
  std::size_t bytes = 0;
  bool on_host = false;
  int device = 0;
};
Range range_around(const void* address);
std::int64_t bytes_in_use(int device);

}  // namespace stand_in
