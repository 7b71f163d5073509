// How a call ends, and how work is issued to a stream. Errors have the runtime's own texts, because
// callers search for them.
#include "tests/stand_in_cuda/runtime/state.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

namespace stand_in {

// None of these is ever destroyed: other destructors use them.
std::recursive_mutex& everything() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t refuse(const char* call, Rule rule, const Captures& spoilt) {
  const Refusal& refusal = refusals()[static_cast<std::size_t>(rule)];
  journal::line("refused %s error=%d: %s (%s)", call, static_cast<int>(refusal.error), refusal.what,
                refusal.manual);
  for (const auto& capture : spoilt) capture->valid = false;
  return refusal.error;
}

cudaError_t misused(const char* call, const char* what, cudaError_t error) {
  journal::line("misused %s error=%d: %s", call, static_cast<int>(error), what);
  return error;
}

namespace {
std::atomic<bool> hanging{false};
}

void hang(bool hangs) { hanging = hangs; }
bool hangs() { return hanging; }
void wait_while_it_hangs() {
  while (hanging) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

cudaError_t give(const char* call, cudaStream_t stream, CUgraphNode_st::Kind kind, const std::string& name,
                 std::function<void()> work, std::vector<stand_in_touched> touches,
                 const std::shared_ptr<void>& communicator) {
  cudaStream_t to = resolved(stream);
  if (to == nullptr) return misused(call, "the stream was destroyed", cudaErrorInvalidResourceHandle);
  if (to->legacy) {
    Captures blocking;
    for (const auto& capture : captures_under_way())
      if (std::any_of(capture->streams.begin(), capture->streams.end(),
                      [](cudaStream_t s) { return (s->flags & cudaStreamNonBlocking) == 0; }))
        blocking.push_back(capture);
    if (!blocking.empty()) return refuse(call, Rule::legacy_stream_beside_blocking_capture, blocking);
  }
  if (to->capture == nullptr) {
    // Messages of a pipeline run beside recordings.
    if (communicator == nullptr) note_work(to, name.c_str(), /*is_launch=*/false);
    if (work && !hangs()) work();
    return cudaSuccess;
  }
  if (!to->capture->valid) return refuse(call, Rule::work_after_invalidation);
  auto node = std::make_shared<CUgraphNode_st>(
      CUgraphNode_st{kind, name, std::move(work), std::move(touches), to->last, communicator, to->priority});
  to->last = {node.get()};
  to->capture->graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

}  // namespace stand_in

// --- errors ---

cudaError_t cudaGetLastError() { return std::exchange(stand_in::last_error(), cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return stand_in::last_error(); }

// The texts are those of the runtime, which callers search for.
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorStreamCaptureWrongThread:
      return "attempt to terminate a thread-local capture sequence from another thread";
    default:
      return "an error that the stand-in has no words for";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  thread_local char name[32];
  std::snprintf(name, sizeof name, "cudaError%d", static_cast<int>(error));
  return name;
}
