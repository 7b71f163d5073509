// Makes the calls that a CUDA runtime refuses according to refusals.h, and a few that it must
// allow, and compares the errors: refusal_check --device=cuda. On a GPU it shows that the stand-in
// refuses the right calls; on the stand-in that it follows its own table.
#include <fmt/format.h>

#include <functional>
#include <thread>

#include "tests/cuda/checks.h"
#include "tests/stand_in_cuda/refusals.h"

namespace rondo {
namespace {

using stand_in::Rule;

void must(cudaError_t error) {
  require(error == cudaSuccess,
          fmt::format("before the call in question: error {}", static_cast<int>(error)));
}

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { must(cudaStreamCreateWithFlags(&stream, flags)); }
  ~Stream() { cudaStreamDestroy(stream); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t stream = nullptr;
};

struct Event {
  Event() { must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t event = nullptr;
};

struct Memory {
  Memory() {
    must(cudaMalloc(&device, 1024));
    must(cudaHostAlloc(&host, 1024, cudaHostAllocDefault));
  }
  ~Memory() {
    cudaFree(device);
    cudaFreeHost(host);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void *device = nullptr, *host = nullptr;
};

// A capture that is always ended and discarded.
struct Capture : Stream {
  explicit Capture(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal,
                   unsigned flags = cudaStreamNonBlocking)
      : Stream(flags) {
    must(cudaStreamBeginCapture(stream, mode));
  }
  ~Capture() {
    end();
    cudaGetLastError();
  }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error;
  }
  // `other` joins the capture.
  void fork(const Stream& other) {
    const Event event;
    must(cudaEventRecord(event.event, stream));
    must(cudaStreamWaitEvent(other.stream, event.event, 0));
  }
};

cudaError_t in_another_thread(const std::function<cudaError_t()>& call) {
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = call(); }).join();
  return error;
}

cudaError_t malloc_and_free() {
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, 1024);
  if (error == cudaSuccess) cudaFree(block);
  return error;
}

// Rules that hold in every mode of a capture (Runtime API, cudaThreadExchangeStreamCaptureMode):
// these calls conflict with any capture.
constexpr Rule kInEveryMode[] = {Rule::synchronize_capturing_stream, Rule::query_capturing_stream,
                                 Rule::synchronize_device_under_capture, Rule::query_captured_event,
                                 Rule::synchronize_captured_event};

struct Mode {
  const char* name;
  cudaStreamCaptureMode mode;
};
constexpr Mode kOtherModes[] = {{"global", cudaStreamCaptureModeGlobal},
                                {"relaxed", cudaStreamCaptureModeRelaxed}};

// The rules in kInEveryMode use `mode`.
cudaError_t refused_call(Rule rule, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  const Memory memory;
  const Event event;
  const Stream other;
  const auto fill = [&](cudaStream_t stream) { return cudaMemsetAsync(memory.device, 0, 4, stream); };
  must(cudaEventRecord(event.event, other.stream));
  must(cudaStreamSynchronize(other.stream));
  switch (rule) {
    case Rule::malloc_under_capture: {
      const Capture capture;
      return malloc_and_free();
    }
    case Rule::free_under_capture: {
      const Capture capture;
      return cudaFree(memory.device);
    }
    case Rule::host_alloc_under_capture: {
      const Capture capture;
      void* block = nullptr;
      return cudaHostAlloc(&block, 1024, cudaHostAllocDefault);
    }
    case Rule::free_host_under_capture: {
      const Capture capture;
      return cudaFreeHost(memory.host);
    }
    case Rule::event_query_under_capture: {
      const Capture capture;
      return cudaEventQuery(event.event);
    }
    case Rule::malloc_beside_a_global_capture: {
      const Capture capture(cudaStreamCaptureModeGlobal);
      return in_another_thread(&malloc_and_free);
    }
    case Rule::synchronize_capturing_stream: {
      const Capture capture(mode);
      return cudaStreamSynchronize(capture.stream);
    }
    case Rule::query_capturing_stream: {
      const Capture capture(mode);
      return cudaStreamQuery(capture.stream);
    }
    case Rule::synchronize_device_under_capture: {
      const Capture capture(mode);
      return cudaDeviceSynchronize();
    }
    case Rule::query_captured_event: {
      const Capture capture(mode);
      must(cudaEventRecord(event.event, capture.stream));
      return cudaEventQuery(event.event);
    }
    case Rule::synchronize_captured_event: {
      const Capture capture(mode);
      must(cudaEventRecord(event.event, capture.stream));
      return cudaEventSynchronize(event.event);
    }
    case Rule::legacy_stream_beside_blocking_capture: {
      const Capture capture(cudaStreamCaptureModeThreadLocal, cudaStreamDefault);
      return fill(cudaStreamLegacy);
    }
    case Rule::capture_of_legacy_stream:
      return cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeThreadLocal);
    case Rule::work_after_invalidation: {
      const Capture capture;
      cudaStreamSynchronize(capture.stream);
      return fill(capture.stream);
    }
    case Rule::end_of_invalidated_capture: {
      Capture capture;
      cudaStreamSynchronize(capture.stream);
      return capture.end();
    }
    case Rule::end_in_another_stream: {
      Capture capture;
      capture.fork(other);
      cudaGraph_t graph = nullptr;
      return cudaStreamEndCapture(other.stream, &graph);
    }
    case Rule::end_in_another_thread: {
      Capture capture;
      return in_another_thread([&] { return capture.end(); });
    }
    case Rule::fork_without_join: {
      Capture capture;
      capture.fork(other);
      must(fill(other.stream));
      return capture.end();
    }
    case Rule::wait_for_event_from_outside: {
      const Capture capture;
      return cudaStreamWaitEvent(capture.stream, event.event, 0);
    }
    case Rule::wait_for_event_of_another_capture: {
      const Capture capture, another;
      must(cudaEventRecord(event.event, another.stream));
      return cudaStreamWaitEvent(capture.stream, event.event, 0);
    }
    case Rule::free_twice: {
      void* block = nullptr;
      must(cudaMalloc(&block, 1024));
      must(cudaFree(block));
      return cudaFree(block);
    }
    case Rule::time_of_event_without_timing: {
      float milliseconds = 0;
      return cudaEventElapsedTime(&milliseconds, event.event, event.event);
    }
  }
  return cudaSuccess;
}

struct Allowed {
  const char* what;
  std::function<cudaError_t()> call;
};

const std::vector<Allowed>& allowed() {
  static const std::vector<Allowed> all = {
      {"cudaMalloc in a thread that is relaxed for as long",
       [] {
         const Capture capture;
         auto mode = cudaStreamCaptureModeRelaxed;
         must(cudaThreadExchangeStreamCaptureMode(&mode));
         const cudaError_t error = malloc_and_free();
         must(cudaThreadExchangeStreamCaptureMode(&mode));
         return error;
       }},
      {"cudaEventQuery in another thread beside a thread's capture",
       [] {
         const Event event;
         const Stream other;
         must(cudaEventRecord(event.event, other.stream));
         must(cudaStreamSynchronize(other.stream));
         const Capture capture;
         return in_another_thread([&] { return cudaEventQuery(event.event); });
       }},
      {"a fork that is joined",
       [] {
         const Memory memory;
         const Event joined;
         const Stream other;
         Capture capture;
         capture.fork(other);
         must(cudaMemsetAsync(memory.device, 0, 4, other.stream));
         must(cudaEventRecord(joined.event, other.stream));
         must(cudaStreamWaitEvent(capture.stream, joined.event, 0));
         return capture.end();
       }},
      {"a graph that outlives the events of its capture, and is launched twice",
       [] {
         const Memory memory;
         const Stream stream;
         cudaGraph_t graph = nullptr;
         cudaGraphExec_t exec = nullptr;
         must(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal));
         must(cudaMemsetAsync(memory.device, 1, 4, stream.stream));
         must(cudaMemcpyAsync(memory.host, memory.device, 4, cudaMemcpyDeviceToHost, stream.stream));
         must(cudaStreamEndCapture(stream.stream, &graph));
         must(cudaGraphInstantiateWithFlags(&exec, graph, 0));
         must(cudaGraphDestroy(graph));
         must(cudaGraphLaunch(exec, stream.stream));
         must(cudaGraphLaunch(exec, stream.stream));
         must(cudaStreamSynchronize(stream.stream));
         require(*static_cast<int*>(memory.host) == 0x01010101, "the launches did their work");
         return cudaGraphExecDestroy(exec);
       }},
  };
  return all;
}

Figures expect(cudaError_t wanted, const std::function<cudaError_t()>& call) {
  cudaGetLastError();
  const cudaError_t got = call();
  cudaGetLastError();
  require(got == wanted, fmt::format("error {} and not {}", static_cast<int>(got), static_cast<int>(wanted)));
  return {{"error", static_cast<int>(got)}};
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) != "--device=cuda") {
    std::fprintf(stderr, "refusal_check: error: --device=cuda is missing\n");
    return 2;
  }
  rondo::Checks checks;
  for (const stand_in::Refusal& refusal : stand_in::refusals())
    checks.run(fmt::format("refused: {}", refusal.what), [&] {
      return rondo::expect(refusal.error, [&] { return rondo::refused_call(refusal.rule); });
    });
  for (const rondo::Mode& other : rondo::kOtherModes)
    for (const stand_in::Rule rule : rondo::kInEveryMode) {
      const stand_in::Refusal& refusal = stand_in::refusals()[static_cast<std::size_t>(rule)];
      checks.run(fmt::format("refused in {} mode: {}", other.name, refusal.what), [&] {
        return rondo::expect(refusal.error, [&] { return rondo::refused_call(rule, other.mode); });
      });
    }
  for (const rondo::Allowed& allowed : rondo::allowed())
    checks.run(fmt::format("allowed: {}", allowed.what),
               [&] { return rondo::expect(cudaSuccess, allowed.call); });
  return checks.exit_code();
}
