// The rules for captures in the CUDA manual, as one table. The stand-in takes its errors from it,
// and refusal_check.cpp tests a runtime with it, the stand-in or NVIDIA's.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

namespace stand_in {

enum class Rule {
  malloc_under_capture,
  free_under_capture,
  host_alloc_under_capture,
  free_host_under_capture,
  event_query_under_capture,
  malloc_beside_a_global_capture,
  synchronize_capturing_stream,
  query_capturing_stream,
  synchronize_device_under_capture,
  query_captured_event,
  synchronize_captured_event,
  legacy_stream_beside_blocking_capture,
  capture_of_legacy_stream,
  work_after_invalidation,
  end_of_invalidated_capture,
  end_in_another_stream,
  end_in_another_thread,
  fork_without_join,
  wait_for_event_from_outside,
  wait_for_event_of_another_capture,
  free_twice,
  time_of_event_without_timing,
};

struct Refusal {
  Rule rule;
  const char* what;
  cudaError_t error;
  const char* manual;  // the section of the manual, CUDA 13.0
};

// Returns the refusals in the order of Rule.
std::span<const Refusal> refusals();

}  // namespace stand_in
