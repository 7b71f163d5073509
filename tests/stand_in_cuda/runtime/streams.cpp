// Streams and events. All work is done when it is issued, so the host never waits. The state
// records which queries are allowed, and which launches the host has not waited for.
#include <algorithm>
#include <map>
#include <set>

#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in {
namespace {

std::vector<cudaStream_t>& streams() {
  static auto* const all = [] {
    journal::at_exit("streams", [] {
      return static_cast<std::int64_t>(std::count_if(streams().begin(), streams().end(),
                                                     [](cudaStream_t s) { return s->alive && !s->legacy; }));
    });
    return new std::vector<cudaStream_t>;
  }();
  return *all;
}

constexpr int kHighestPriority = -5;
std::int64_t events_alive = 0, waits_so_far = 0;

// The work that the host has waited for, which comes before all work that is given later.
Known& known_to_host() {
  static auto* const known = new Known;
  return *known;
}
void add(Known& to, const Known& from) {
  for (const auto& [stream, work] : from) to[stream] = std::max(to[stream], work);
}
std::int64_t work_of(cudaStream_t stream, const Known& known) {
  const auto it = known.find(stream->id);
  return it == known.end() ? 0 : it->second;
}

cudaStream_t make_stream(unsigned flags, bool legacy) {
  auto* const made = new CUstream_st;
  made->id = static_cast<int>(streams().size());
  made->device = current_device();
  made->flags = flags;
  made->legacy = legacy;
  streams().push_back(made);
  return made;
}

bool knows(cudaStream_t stream) {
  return std::find(streams().begin(), streams().end(), stream) != streams().end();
}

cudaError_t gone(const char* call) {
  return misused(call, "it was destroyed", cudaErrorInvalidResourceHandle);
}

// Queries that the host must not make of a capturing stream.
cudaError_t ask(const char* call, cudaStream_t asked, Rule rule) {
  const cudaStream_t stream = resolved(asked);
  if (stream == nullptr) return gone(call);
  if (stream->capture != nullptr) return refuse(call, rule, {stream->capture});
  waited_for(stream);
  return cudaSuccess;
}

cudaError_t join(cudaStream_t stream, const cudaEvent_t event, unsigned flags) {
  const char* const call = "cudaStreamWaitEvent";
  const auto& theirs = event->capture;
  if (theirs == nullptr || !theirs->active) {
    if (theirs != nullptr) return refuse(call, Rule::query_captured_event);
    if (stream->capture == nullptr) {
      add(stream->known, event->known);
      return cudaSuccess;
    }
    if ((flags & cudaEventWaitExternal) != 0)
      return give(call, stream, CUgraphNode_st::Kind::event, "wait for an event");
    return refuse(call, Rule::wait_for_event_from_outside, {stream->capture});
  }
  if (!theirs->valid || (stream->capture != nullptr && !stream->capture->valid))
    return refuse(call, Rule::work_after_invalidation);
  if (stream->capture == nullptr) {
    if (stream->legacy) return refuse(call, Rule::legacy_stream_beside_blocking_capture, {theirs});
    stream->capture = theirs;
    stream->last.clear();
    theirs->streams.push_back(stream);
  } else if (stream->capture != theirs) {
    return refuse(call, Rule::wait_for_event_of_another_capture, {theirs, stream->capture});
  }
  for (CUgraphNode_st* node : event->at)
    if (std::find(stream->last.begin(), stream->last.end(), node) == stream->last.end())
      stream->last.push_back(node);
  return cudaSuccess;
}

}  // namespace

cudaStream_t resolved(cudaStream_t stream) {
  static auto* const legacy = new std::map<int, cudaStream_t>;
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    cudaStream_t& made = (*legacy)[current_device()];
    if (made == nullptr) made = make_stream(0, true);
    return made;
  }
  return knows(stream) && stream->alive ? stream : nullptr;
}

void note_work(cudaStream_t stream, const char* name, bool is_launch) {
  static auto* const reported = new std::set<std::pair<int, int>>;
  for (const cudaStream_t other : streams()) {
    const std::int64_t known = std::max(work_of(other, stream->known), work_of(other, known_to_host()));
    if (other == stream || (is_launch ? other->given : other->launched) <= known) continue;
    if (reported->insert(std::minmax(stream->id, other->id)).second)
      journal::line("misused %.200s error=0: no order between it and %s", name,
                    is_launch ? "work of another stream" : "a launched recording of another stream");
  }
  ++stream->given;
  if (is_launch) stream->launched = stream->given;
}

void waited_for(cudaStream_t stream) {
  stream->in_flight.clear();
  add(known_to_host(), stream->known);
  known_to_host()[stream->id] = stream->given;
}
void waited_for_all() {
  for (cudaStream_t stream : streams()) waited_for(stream);
}
bool host_knows(cudaStream_t stream, std::int64_t work) { return work_of(stream, known_to_host()) >= work; }
std::int64_t waits() { return waits_so_far; }
void note_wait() { ++waits_so_far; }
bool in_flight(cudaGraphExec_t exec) {
  return std::any_of(streams().begin(), streams().end(), [&](cudaStream_t stream) {
    return std::find(stream->in_flight.begin(), stream->in_flight.end(), exec) != stream->in_flight.end();
  });
}
bool in_flight(const std::shared_ptr<void>& communicator) {
  const auto has_it = [&](cudaGraphExec_t exec) {
    return std::any_of(exec->nodes.begin(), exec->nodes.end(),
                       [&](const auto& node) { return node->communicator == communicator; });
  };
  return std::any_of(streams().begin(), streams().end(), [&](cudaStream_t stream) {
    return std::any_of(stream->in_flight.begin(), stream->in_flight.end(), has_it);
  });
}

}  // namespace stand_in

using namespace stand_in;

// --- streams ---

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return called(__func__, [&] {
    *stream = make_stream(flags, false);
    (*stream)->priority = std::clamp(priority, kHighestPriority, 0);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return called(__func__, [&] {
    if (!knows(stream) || !stream->alive || stream->legacy) return gone("cudaStreamDestroy");
    if (stream->capture != nullptr)
      return misused("cudaStreamDestroy", "the stream captures", cudaErrorStreamCaptureUnsupported);
    stream->alive = false;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  wait_while_it_hangs();
  return called(__func__, [&] {
    note_wait();
    return ask("cudaStreamSynchronize", stream, Rule::synchronize_capturing_stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return called(__func__, [&] { return ask("cudaStreamQuery", stream, Rule::query_capturing_stream); });
}

cudaError_t cudaDeviceSynchronize() {
  wait_while_it_hangs();
  return called(__func__, [&] {
    if (!captures_under_way().empty())
      return refuse("cudaDeviceSynchronize", Rule::synchronize_device_under_capture, captures_under_way());
    note_wait();
    waited_for_all();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return called(__func__, [&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = journal::bug("one_priority") ? 0 : kHighestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return called(__func__, [&] {
    const cudaStream_t waiting = resolved(stream);
    if (waiting == nullptr || event == nullptr || !event->alive) return gone("cudaStreamWaitEvent");
    return join(waiting, event, flags);
  });
}

// --- events ---

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return called(__func__, [&] {
    static const bool told = (journal::at_exit("events", [] { return events_alive; }), true);
    (void)told;
    *event = new CUevent_st;
    (*event)->flags = flags;
    ++events_alive;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return called(__func__, [&] {
    if (event == nullptr || !event->alive) return gone("cudaEventDestroy");
    event->alive = false;
    --events_alive;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t given, unsigned flags) {
  return called("cudaEventRecord", [&] {
    const cudaStream_t stream = resolved(given);
    if (stream == nullptr || event == nullptr || !event->alive) return gone("cudaEventRecord");
    if ((flags & cudaEventRecordExternal) != 0)
      return give("cudaEventRecord", stream, CUgraphNode_st::Kind::event, "record an event");
    if (stream->capture != nullptr && !stream->capture->valid)
      return refuse("cudaEventRecord", Rule::work_after_invalidation);
    event->capture = stream->capture;
    event->at = stream->last;
    event->recorded = true;
    if (stream->capture == nullptr) {
      event->known = stream->known;
      event->known[stream->id] = stream->given;
    }
    event->behind_a_hang = hangs();
    event->launches = launches();
    event->when = std::chrono::steady_clock::now();
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return called(__func__, [&] {
    if (event == nullptr || !event->alive) return gone("cudaEventQuery");
    if (event->capture != nullptr) {
      return refuse("cudaEventQuery", Rule::query_captured_event,
                    event->capture->active ? Captures{event->capture} : Captures{});
    }
    if (const Captures because = prohibiting(); !because.empty())
      return refuse("cudaEventQuery", Rule::event_query_under_capture, because);
    if (hangs()) return cudaErrorNotReady;
    add(known_to_host(), event->known);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event != nullptr && event->behind_a_hang) wait_while_it_hangs();
  return called(__func__, [&] {
    if (event == nullptr || !event->alive) return gone("cudaEventSynchronize");
    if (event->capture != nullptr)
      return refuse("cudaEventSynchronize", Rule::synchronize_captured_event,
                    event->capture->active ? Captures{event->capture} : Captures{});
    if (event->launches == launches()) note_wait();
    add(known_to_host(), event->known);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return called(__func__, [&] {
    if (start == nullptr || end == nullptr || !start->alive || !end->alive)
      return gone("cudaEventElapsedTime");
    if (((start->flags | end->flags) & cudaEventDisableTiming) != 0)
      return refuse("cudaEventElapsedTime", Rule::time_of_event_without_timing);
    if (!start->recorded || !end->recorded) return cudaErrorInvalidResourceHandle;
    *milliseconds = std::chrono::duration<float, std::milli>(end->when - start->when).count();
    return cudaSuccess;
  });
}
