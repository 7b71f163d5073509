// Captures, graphs and their launches. A capture holds the streams that joined it. Each node knows
// its predecessors, so work that the first stream does not wait for is found at the end.
#include <signal.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "tests/stand_in_cuda/runtime/memory.h"
#include "tests/stand_in_cuda/runtime/state.h"

namespace stand_in {
namespace {

Captures under_way;
int captures_begun = 0, graphs_made = 0;
std::int64_t graphs_alive = 0, execs_alive = 0, launches_so_far = 0;

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

const char* name(cudaStreamCaptureMode mode) {
  return mode == cudaStreamCaptureModeGlobal        ? "global"
         : mode == cudaStreamCaptureModeThreadLocal ? "thread_local"
                                                    : "relaxed";
}

void end(const std::shared_ptr<Capture>& capture) {
  capture->active = false;
  for (cudaStream_t stream : capture->streams) {
    stream->capture = nullptr;
    stream->last.clear();
  }
  std::erase(under_way, capture);
}

// Returns a node that the first stream does not wait for at the end of a capture, or nullptr.
const CUgraphNode_st* unjoined(const Capture& capture) {
  std::set<const CUgraphNode_st*> reached;
  std::vector<const CUgraphNode_st*> open(capture.origin->last.begin(), capture.origin->last.end());
  while (!open.empty()) {
    const CUgraphNode_st* const node = open.back();
    open.pop_back();
    if (reached.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  for (const auto& node : capture.graph->nodes)
    if (!reached.contains(node.get())) return node.get();
  return nullptr;
}

// Returns, for each node, which nodes come before it.
std::vector<std::vector<bool>> order_of(const std::vector<std::shared_ptr<CUgraphNode_st>>& nodes) {
  std::map<const CUgraphNode_st*, std::size_t> numbers;
  std::vector<std::vector<bool>> before(nodes.size(), std::vector<bool>(nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    numbers[nodes[i].get()] = i;
    for (const CUgraphNode_st* node : nodes[i]->after) {
      const std::size_t j = numbers.at(node);
      before[i][j] = true;
      for (std::size_t k = 0; k < j; ++k)
        if (before[j][k]) before[i][k] = true;
    }
  }
  return before;
}

// Reports unordered pairs of copies, fills, products and collectives on the same memory, of which
// at least one writes.
void tell_races(const std::vector<std::shared_ptr<CUgraphNode_st>>& nodes,
                const std::vector<std::vector<bool>>& before) {
  const auto begin = [](const stand_in_touched& touched) { return static_cast<const char*>(touched.begin); };
  const auto overlap = [&](const stand_in_touched& a, const stand_in_touched& b) {
    return (a.written || b.written) && begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (before[i][j]) continue;
      for (const stand_in_touched& a : nodes[i]->touches)
        for (const stand_in_touched& b : nodes[j]->touches)
          if (overlap(a, b))
            journal::line(
                "misused %s error=0: no order between it (node %zu) and %s (node %zu), of one place",
                nodes[i]->name.c_str(), i, nodes[j]->name.c_str(), j);
    }
}

// Reports unordered collectives of two communicators, once for each two: ranks may execute them in
// different orders, and wait for each other. NCCL orders them as they were issued if
// NCCL_LAUNCH_ORDER_IMPLICIT is 1.
void tell_unordered_collectives(const std::vector<std::shared_ptr<CUgraphNode_st>>& nodes,
                                const std::vector<std::vector<bool>>& before) {
  const char* const ordered = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (ordered != nullptr && std::strcmp(ordered, "1") == 0) return;
  std::set<std::pair<void*, void*>> reported;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      void *const one = nodes[i]->communicator.get(), *const other = nodes[j]->communicator.get();
      if (one == nullptr || other == nullptr || one == other || before[i][j]) continue;
      if (reported.insert(std::minmax(one, other)).second)
        journal::line(
            "misused %s error=0: no order between it (node %zu) and %s (node %zu), of two communicators",
            nodes[i]->name.c_str(), i, nodes[j]->name.c_str(), j);
    }
}

// Reports the lowest priority of the streams of collectives, and the highest of those of other
// kernels. Lower numbers are higher priorities.
void tell_priorities(const Capture& capture) {
  int of_collectives = INT_MIN, of_kernels = INT_MAX;
  for (const auto& node : capture.graph->nodes)
    if (node->communicator != nullptr)
      of_collectives = std::max(of_collectives, node->priority);
    else if (node->kind == CUgraphNode_st::Kind::kernel)
      of_kernels = std::min(of_kernels, node->priority);
  if (of_collectives != INT_MIN)
    journal::line("priorities number=%d collectives=%d kernels=%d", capture.id, of_collectives, of_kernels);
}

std::int64_t edges(const std::vector<std::shared_ptr<CUgraphNode_st>>& nodes) {
  std::int64_t sum = 0;
  for (const auto& node : nodes) sum += static_cast<std::int64_t>(node->after.size());
  return sum;
}

std::int64_t count(const std::vector<std::shared_ptr<CUgraphNode_st>>& nodes, CUgraphNode_st::Kind kind) {
  return std::count_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node->kind == kind; });
}

// Reports the captured calls and their counts.
void tell_names(const Capture& capture) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& node : capture.graph->nodes) ++counts[node->name];
  for (const auto& [name, count] : counts)
    journal::line("captured number=%d count=%lld %.800s", capture.id, (long long)count, name.c_str());
}

cudaError_t failed(const Capture& capture, cudaError_t error) {
  journal::line("capture_failed number=%d error=%d", capture.id, static_cast<int>(error));
  capture.graph->alive = false;
  capture.graph->nodes.clear();
  --graphs_alive;
  return error;
}

}  // namespace

const Captures& captures_under_way() { return under_way; }
std::int64_t launches() { return launches_so_far; }

Captures prohibiting() {
  Captures found;
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return found;
  for (const auto& capture : under_way) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool prohibits =
        mine ? capture->mode != cudaStreamCaptureModeRelaxed
             : mode_of_thread == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (prohibits) found.push_back(capture);
  }
  return found;
}

}  // namespace stand_in

using namespace stand_in;

// --- captures ---

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t given, cudaStreamCaptureMode mode) {
  return called(__func__, [&] {
    const cudaStream_t stream = resolved(given);
    if (stream == nullptr)
      return misused("cudaStreamBeginCapture", "the stream was destroyed", cudaErrorInvalidResourceHandle);
    if (stream->legacy) return refuse("cudaStreamBeginCapture", Rule::capture_of_legacy_stream);
    if (stream->capture != nullptr)
      return misused("cudaStreamBeginCapture", "the stream captures already", cudaErrorIllegalState);
    static const bool told = (journal::at_exit("graphs", [] { return graphs_alive; }),
                              journal::at_exit("recordings", [] { return execs_alive; }), true);
    (void)told;
    const auto capture = std::make_shared<Capture>();
    capture->id = ++captures_begun;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream;
    capture->graph = new CUgraph_st;
    capture->graph->id = ++graphs_made;
    capture->streams = {stream};
    ++graphs_alive;
    stream->capture = capture;
    stream->last.clear();
    under_way.push_back(capture);
    note_capture();
    journal::line("capture_begin number=%d stream=%d mode=%s", capture->id, stream->id, name(mode));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t given, cudaGraph_t* graph) {
  return called(__func__, [&] {
    const char* const call = "cudaStreamEndCapture";
    *graph = nullptr;
    const cudaStream_t stream = resolved(given);
    if (stream == nullptr || stream->capture == nullptr)
      return misused(call, "the stream does not capture", cudaErrorIllegalState);
    const auto capture = stream->capture;
    if (capture->origin != stream) return refuse(call, Rule::end_in_another_stream, {capture});
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
      return refuse(call, Rule::end_in_another_thread);
    if (!capture->valid) {
      end(capture);
      return failed(*capture, refuse(call, Rule::end_of_invalidated_capture));
    }
    const CUgraphNode_st* const lost = unjoined(*capture);
    const auto joined = capture->streams.size();
    end(capture);
    if (lost != nullptr) {
      journal::line("unjoined %.200s", lost->name.c_str());
      return failed(*capture, refuse(call, Rule::fork_without_join));
    }
    const auto& nodes = capture->graph->nodes;
    const auto before = order_of(nodes);
    tell_races(nodes, before);
    tell_unordered_collectives(nodes, before);
    tell_priorities(*capture);
    tell_names(*capture);
    journal::line(
        "capture_end number=%d nodes=%zu edges=%lld kernels=%lld copies=%lld fills=%lld streams=%zu",
        capture->id, nodes.size(), (long long)edges(nodes),
        (long long)count(nodes, CUgraphNode_st::Kind::kernel),
        (long long)count(nodes, CUgraphNode_st::Kind::copy),
        (long long)count(nodes, CUgraphNode_st::Kind::fill), joined);
    *graph = capture->graph;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t given, cudaStreamCaptureStatus* status) {
  return called(__func__, [&] {
    const cudaStream_t stream = resolved(given);
    if (stream == nullptr)
      return misused("cudaStreamIsCapturing", "the stream was destroyed", cudaErrorInvalidResourceHandle);
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->valid   ? cudaStreamCaptureStatusActive
                                         : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** after, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  const cudaError_t error = cudaStreamIsCapturing(stream, status);
  if (error != cudaSuccess || *status != cudaStreamCaptureStatusActive) return error;
  const std::lock_guard lock(everything());
  const cudaStream_t found = resolved(stream);
  if (id != nullptr) *id = static_cast<unsigned long long>(found->capture->id);
  if (graph != nullptr) *graph = found->capture->graph;
  if (after != nullptr) *after = found->last.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = found->last.size();
  return cudaSuccess;
}

// --- graphs ---

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return called(__func__, [&] {
    if (!graph->alive) return misused("cudaGraphGetNodes", "the graph was destroyed", cudaErrorInvalidValue);
    if (nodes == nullptr) {
      *count = graph->nodes.size();
      return cudaSuccess;
    }
    for (std::size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = graph->nodes[i].get();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return called(__func__, [&] {
    if (graph == nullptr || !graph->alive)
      return misused("cudaGraphDestroy", "the graph was destroyed", cudaErrorInvalidValue);
    graph->alive = false;
    graph->nodes.clear();
    --graphs_alive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return called(__func__, [&] {
    if (graph == nullptr || !graph->alive)
      return misused("cudaGraphInstantiateWithFlags", "the graph was destroyed", cudaErrorInvalidValue);
    *made = new CUgraphExec_st;
    (*made)->id = graph->id;
    (*made)->nodes = graph->nodes;
    ++execs_alive;
    journal::line("instantiate recording=%d nodes=%zu", graph->id, graph->nodes.size());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t given) {
  return called(__func__, [&] {
    const cudaStream_t stream = resolved(given);
    if (exec == nullptr || !exec->alive || stream == nullptr)
      return misused("cudaGraphLaunch", "the recording or the stream was destroyed", cudaErrorInvalidValue);
    if (stream->capture != nullptr)
      return misused("cudaGraphLaunch", "a launch within a capture", cudaErrorStreamCaptureUnsupported);
    note_work(stream, "cudaGraphLaunch", /*is_launch=*/true);
    ++launches_so_far;
    journal::line("launch recording=%d launches=%lld calls=%lld waits=%lld copied_to=%llx", exec->id,
                  (long long)++exec->launches, (long long)journal::calls(), (long long)waits(),
                  (unsigned long long)take_copied_to());
    if (journal::bug("free_pool")) {
      const auto copies = [](const auto& node) { return node->kind == CUgraphNode_st::Kind::copy; };
      const auto copy = std::find_if(exec->nodes.begin(), exec->nodes.end(), copies);
      cudaFree(range_around((*copy)->touches.front().begin).begin);
    }
    if (journal::bug("hang")) hang();
    if (journal::bug("die")) raise(SIGKILL);
    for (const auto& node : exec->nodes)
      if (node->work && !hangs()) node->work();
    stream->in_flight.push_back(exec);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return called(__func__, [&] {
    if (exec == nullptr || !exec->alive)
      return misused("cudaGraphExecDestroy", "the recording was destroyed", cudaErrorInvalidValue);
    if (in_flight(exec))
      journal::line("misused cudaGraphExecDestroy error=0: the host has not waited for its last launch");
    exec->alive = false;
    exec->nodes.clear();
    --execs_alive;
    journal::line("destroy recording=%d launches=%lld", exec->id, (long long)exec->launches);
    return cudaSuccess;
  });
}
