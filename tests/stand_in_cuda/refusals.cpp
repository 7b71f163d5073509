#include "tests/stand_in_cuda/refusals.h"

namespace stand_in {
namespace {

constexpr const char* kModes = "Runtime API, cudaThreadExchangeStreamCaptureMode";
constexpr const char* kProhibited =
    "Programming Guide, CUDA Graphs, Creating a Graph Using Stream Capture: Prohibited and Unhandled "
    "Operations";
constexpr const char* kInvalidation =
    "Programming Guide, CUDA Graphs, Creating a Graph Using Stream Capture: Invalidation";
constexpr const char* kEvents =
    "Programming Guide, CUDA Graphs, Creating a Graph Using Stream Capture: Cross-stream Dependencies and "
    "Events";
constexpr const char* kErrors = "Runtime API, Data types used by CUDA Runtime, cudaError";
constexpr const char* kBegin = "Runtime API, cudaStreamBeginCapture";

constexpr Refusal kRefusals[] = {
    {Rule::malloc_under_capture, "cudaMalloc in the thread of a capture that is not relaxed",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::free_under_capture, "cudaFree in the thread of a capture that is not relaxed",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::host_alloc_under_capture, "cudaHostAlloc in the thread of a capture that is not relaxed",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::free_host_under_capture, "cudaFreeHost in the thread of a capture that is not relaxed",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::event_query_under_capture, "cudaEventQuery in the thread of a capture that is not relaxed",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::malloc_beside_a_global_capture, "cudaMalloc while another thread captures in global mode",
     cudaErrorStreamCaptureUnsupported, kModes},
    {Rule::synchronize_capturing_stream, "the host waits for a stream that captures",
     cudaErrorStreamCaptureUnsupported, kProhibited},
    {Rule::query_capturing_stream, "the host asks how far a stream is that captures",
     cudaErrorStreamCaptureUnsupported, kProhibited},
    {Rule::synchronize_device_under_capture, "the host waits for a device one of whose streams captures",
     cudaErrorStreamCaptureUnsupported, kProhibited},
    {Rule::query_captured_event, "the host asks for an event that was recorded in a capture",
     cudaErrorCapturedEvent, kErrors},
    {Rule::synchronize_captured_event, "the host waits for an event that was recorded in a capture",
     cudaErrorCapturedEvent, kErrors},
    {Rule::legacy_stream_beside_blocking_capture,
     "work for the legacy stream while a blocking stream captures", cudaErrorStreamCaptureImplicit,
     kProhibited},
    {Rule::capture_of_legacy_stream, "a capture that begins in the legacy stream",
     cudaErrorStreamCaptureUnsupported, kBegin},
    {Rule::work_after_invalidation, "work for a stream whose capture is invalid",
     cudaErrorStreamCaptureInvalidated, kInvalidation},
    {Rule::end_of_invalidated_capture, "the end of a capture that is invalid",
     cudaErrorStreamCaptureInvalidated, kInvalidation},
    {Rule::end_in_another_stream, "a capture that ends in a stream where it did not begin",
     cudaErrorStreamCaptureUnmatched, kErrors},
    {Rule::end_in_another_thread, "a capture that ends in a thread where it did not begin",
     cudaErrorStreamCaptureWrongThread, kErrors},
    {Rule::fork_without_join, "work of a forked stream for which the first stream does not wait",
     cudaErrorStreamCaptureUnjoined, kEvents},
    {Rule::wait_for_event_from_outside, "a capture that waits for an event from before it",
     cudaErrorStreamCaptureIsolation, kProhibited},
    {Rule::wait_for_event_of_another_capture, "a capture that waits for an event of another one",
     cudaErrorStreamCaptureMerge, kProhibited},
    {Rule::free_twice, "cudaFree of what was freed before", cudaErrorInvalidValue, "Runtime API, cudaFree"},
    {Rule::time_of_event_without_timing, "cudaEventElapsedTime of events that keep no time",
     cudaErrorInvalidResourceHandle, "Runtime API, cudaEventElapsedTime"},
};

constexpr bool in_order() {
  int next = 0;
  for (const Refusal& refusal : kRefusals)
    if (static_cast<int>(refusal.rule) != next++) return false;
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const Refusal> refusals() { return kRefusals; }

}  // namespace stand_in
