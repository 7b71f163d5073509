// Memory plans: values that are live at the same time never share bytes, and little is wasted.
#include "compiler/plan/memory_plan.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>
#include <string>

#include "compiler/ir/def_use.h"
#include "compiler/ir/storages.h"
#include "compiler/ops/op.h"
#include "compiler/plan/arena_layout.h"
#include "tests/compiler/ir/verified_graph.h"
#include "tests/compiler/passes/random_graph.h"

using namespace rondo;
using namespace rondo::ir;

namespace {

constexpr MemoryNeeds kOnCpu{.reduce_scatter_receives = true};

// Bytes of the arena that a storage or workspace has at the nodes begin..end.
struct Range {
  std::int64_t offset, bytes;
  std::int32_t begin, end;
  ValueId value;  // kNoValue: a workspace
};

// Computes lifetimes directly from the graph: from the first value of a storage to the last read of
// any view, or to the wait of a collective that reads it.
std::vector<Range> ranges_of(const Graph& graph, const MemoryPlan& plan) {
  const DefUse def_use(graph);
  std::vector<std::int32_t> last(graph.values.size(), -1);
  const auto need = [&](ValueId id, std::size_t node) {
    auto& at = last[static_cast<std::size_t>(storage_root(graph, id))];
    at = std::max(at, static_cast<std::int32_t>(node));
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (ValueId id : graph.nodes[i].results) need(id, i);
    for_each_operand(graph.nodes[i], [&](ValueId id) {
      need(id, i);
      if (facts(graph.nodes[i].op).effect != Effect::wait) return;
      const std::int32_t start = def_use.maker(storage_root(graph, id));
      for_each_operand(graph.nodes[static_cast<std::size_t>(start)], [&](ValueId sent) { need(sent, i); });
    });
  }
  std::vector<Range> ranges;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const bool owns = def_use.maker(id) != kNoNode && storage_root(graph, id) == id && plan.inputs[v] < 0;
    const std::int64_t bytes = storage_bytes(graph.values[v].type);
    REQUIRE((plan.offsets[v] >= 0) == (owns && bytes > 0));
    if (plan.offsets[v] >= 0 && !graph.values[v].on_host)
      ranges.push_back({plan.offsets[v], bytes, def_use.maker(id), last[v], id});
  }
  for (const Workspace& workspace : plan.workspaces)
    ranges.push_back({workspace.offset, workspace.bytes, workspace.start, workspace.wait, kNoValue});
  return ranges;
}

// Returns true if `late` reuses the memory of `early`, which its node reads last: the only way to
// share bytes.
bool reuses(const Graph& graph, const Range& early, const Range& late) {
  if (early.value == kNoValue || late.value == kNoValue) return false;
  const Node& node = graph.nodes[static_cast<std::size_t>(late.begin)];
  const int argument = facts(node.op).reuses;
  if (argument < 0 || early.end != late.begin || early.offset != late.offset || early.bytes != late.bytes)
    return false;
  const auto& use = std::get<Use>(node.args[static_cast<std::size_t>(argument)]);
  return storage_root(graph, use.value) == early.value;
}

void require_sound(const Graph& graph, const MemoryPlan& plan) {
  const std::vector<Range> all = ranges_of(graph, plan);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Range& a = all[i];
    REQUIRE(a.offset % plan.alignment == 0);
    REQUIRE(a.offset + a.bytes <= plan.arena_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const Range& b = all[j];
      const bool at_once = a.begin <= b.end && b.begin <= a.end;
      const bool share = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      if (at_once && share && !reuses(graph, a, b) && !reuses(graph, b, a))
        FAIL("%" << a.value << " and %" << b.value << " stand at once and share bytes\n" << print(graph));
    }
  }
  REQUIRE(plan.arena_bytes >= plan.live_peak_bytes);
}

double waste(const MemoryPlan& plan) {
  return static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.live_peak_bytes) - 1;
}

// A chain of products whose results are saved for the backward. In the backward each has a gradient
// that is live to the end, between short-lived values.
Graph stack_like(int layers) {
  std::string text = "graph stack\nbatch %0: f32[1000] x\n\nforward\n";
  int next = 1;
  const auto node = [&](const std::string& op, const std::string& args) {
    text += "  %" + std::to_string(next) + ": f32[1000] = aten." + op + "(" + args + ")\n";
    return next++;
  };
  const auto id = [](int value) { return "%" + std::to_string(value); };
  std::vector<int> saved, gradients;
  int x = 0;
  for (int i = 0; i < layers; ++i) {
    const int moment = node("exp.default", id(x));
    saved.push_back(x = node("mul.Tensor", id(x) + ", " + id(moment)));
  }
  text += "backward\n";
  for (int i = layers - 1; i >= 0; --i) {
    const int moment = node("mul.Tensor", id(x) + ", " + id(saved[static_cast<std::size_t>(i)]));
    gradients.push_back(node("exp.default", id(moment)));
    x = node("neg.default", id(moment));
  }
  text += "return\n";
  for (std::size_t i = 0; i < gradients.size(); ++i)
    text += "  g" + std::to_string(i) + " = " + id(gradients[i]) + "\n";
  return verified_graph(text);
}

// Approximate lifetimes of a sharded transformer's step: gathers one block ahead, saved
// activations, packed gradients that are sent while the next block runs, and shards that are live
// to the end.
std::vector<Block> transformer_like(int layers, std::int64_t saved_bytes) {
  std::mt19937 random(7);
  const auto around = [&](std::int64_t bytes) {
    return 64 * std::max<std::int64_t>(1, bytes * static_cast<std::int64_t>(90 + random() % 20) / 6400);
  };
  constexpr int kForward = 40, kBackward = 80;
  const int end = layers * (kForward + kBackward);
  const std::int64_t weights = 64 * 100'000;
  std::vector<Block> blocks;
  const auto add = [&](std::int64_t bytes, int from, int to) {
    blocks.push_back({bytes, std::clamp(from, 0, end), std::min(to, end)});
  };
  for (int layer = 0; layer < layers; ++layer) {
    const int forward = layer * kForward, backward = end - (layer + 1) * kBackward;
    add(weights, forward - kForward, forward + kForward - 1);
    add(weights, backward - kBackward, backward + kBackward - 1);
    for (int i = 0; i < 10; ++i) add(saved_bytes, forward + 4 * i, backward + kBackward - 8 * i - 1);
    for (int i = 0; i < kForward; ++i) add(around(2 * saved_bytes), forward + i, forward + i + 3);
    for (int i = 0; i < kBackward; ++i) add(around(2 * saved_bytes), backward + i, backward + i + 3);
    for (int i = 0; i < 3; ++i) add(weights / 3 / 64 * 64, backward + 20 * i, backward + kBackward);
    add(weights, backward + kBackward, backward + 2 * kBackward + 1);
    add(weights / 8, backward + kBackward + 1, end);
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block& a, const Block& b) { return a.begin < b.begin; });
  return blocks;
}

void require_apart(const std::vector<Block>& blocks, const ArenaSize& arena) {
  std::vector<const Block*> alive;
  for (const Block& block : blocks) {
    std::erase_if(alive, [&](const Block* other) { return other->end < block.begin; });
    for (const Block* other : alive)
      REQUIRE((block.offset + block.bytes <= other->offset || other->offset + other->bytes <= block.offset));
    alive.push_back(&block);
    REQUIRE(block.offset >= 0);
    REQUIRE(block.offset + block.bytes <= arena.bytes);
  }
}

const char* const kReduction = R"(graph reduction
parameter %0: f32[64] w
batch %1: f32[64] x

backward w
  %2: f32[64] = aten.exp.default(%1)
  %3: f32[32] = _c10d_functional.reduce_scatter_tensor.default(%2, "sum", 2, "dp")
backward
  %4: f32[64] = aten.neg.default(%1)
  %5: f32[64] = aten.neg.default(%4)
backward w
  %6: f32[32] views %3 = _c10d_functional.wait_tensor.default(%3)
backward
  %7: f32[64] = aten.neg.default(%5)
return
  gradient = %6
  y = %7
)";

}  // namespace

TEST_CASE("storages and workspaces that are live at the same node share no bytes on random graphs") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = random_graph(seed, 20 + static_cast<int>(seed));
    INFO("seed " << seed);
    require_sound(graph, plan_memory(graph));
    require_sound(graph, plan_memory(graph, kOnCpu));
    require_sound(graph, plan_memory(graph, memory_needs(TargetDevice::cuda)));
  }
}

TEST_CASE("a stack of saved values, and gradients that grow as it shrinks, leave no byte unused") {
  const Graph graph = stack_like(200);
  const MemoryPlan plan = plan_memory(graph);
  require_sound(graph, plan);
  CHECK(plan.arena_bytes == plan.live_peak_bytes);
}

TEST_CASE("a transformer's step wastes less than one percent for any size of its activations") {
  for (const std::int64_t saved : {64 * 100, 64 * 2'000, 64 * 10'000, 64 * 50'000}) {
    std::vector<Block> blocks = transformer_like(60, saved);
    const ArenaSize arena = lay_out(blocks);
    require_apart(blocks, arena);
    INFO(saved << " bytes: " << arena.live_peak_bytes << " alive, " << arena.bytes << " planned");
    CHECK(static_cast<double>(arena.bytes) <= 1.01 * static_cast<double>(arena.live_peak_bytes));
  }
}

TEST_CASE("an update of an input without readers is planned in the input's memory, outside of the arena") {
  const Graph graph = verified_graph(R"(graph g
batch %0: f32[64] x
saved %1: f32[64] kept
buffer %2: f32[64] sum

forward
  %3: f32[64] = aten.neg.default(%0)
  %4: f32[8,8] views %3 = aten.view.default(%3, [8, 8])
  %5: f32[64] = aten.add.Tensor(%2, %3, 1)
return
  new.kept = %3 -> kept
  new.sum = %5 -> sum
)");
  const MemoryPlan plan = plan_memory(graph);
  CHECK(plan.inputs[3] == 1);
  CHECK(plan.inputs[5] == -1);  // the sum is read
  CHECK(plan.arena_bytes == 256);
}

TEST_CASE("an update in host memory is planned in the memory of its input, which is read before") {
  const Graph graph = verified_graph(R"(graph g
parameter %0: host f32[1024] w
optimizer %1: host f32[1024] m
batch %2: f32[1024] x
forward
  %3: f32[1024] = rondo.reload.default(%0)
  %4: f32[1024] views %3 = rondo.wait_transfer.default(%3)
  %5: f32[1024] = aten.add.Tensor(%4, %2, 1)
  %6: host f32[1024] = rondo.offload.default(%5)
  %7: host f32[1024] views %6 = rondo.wait_transfer.default(%6)
  %8: host f32[1024] = rondo.offload.default(%2)
  %9: host f32[1024] views %8 = rondo.wait_transfer.default(%8)
return
  new.w = %7 -> w
  new.m = %9 -> m
)");
  const MemoryPlan plan = plan_memory(graph);
  CHECK(plan.inputs[6] == 0);
  CHECK(plan.inputs[8] == 1);
  CHECK(plan.host_arena_bytes == 0);
  CHECK(plan.arena_bytes == 2 * 4096);  // the reloaded tensor and the sum
}

TEST_CASE("a result reuses a whole storage, and not a part that begins later") {
  const auto offsets_of = [](const char* part, const char* sizes) {
    const std::string text = std::string("graph g\nbatch %0: f32[1024] x\nbatch %1: f32[") + sizes +
                             "] y\nforward\n  %2: f32[1024] = aten.exp.default(%0)\n  %3: f32[" + sizes +
                             "] views %2 = " + part + "\n  %4: f32[" + sizes +
                             "] = aten.silu_backward.default(%3, %1)\nreturn\n  z = %4\n";
    const MemoryPlan plan = plan_memory(verified_graph(text));
    return std::pair(plan.offsets[2], plan.offsets[4]);
  };
  const auto [whole, in_its_place] = offsets_of("aten.view.default(%2, [1024])", "1024");
  CHECK(whole == in_its_place);
  const auto [storage, beside] = offsets_of("aten.slice.Tensor(%2, 0, 1, 1024, 1)", "1023");
  CHECK(storage != beside);
}

TEST_CASE("the plan of an empty graph is empty") {
  std::vector<Block> none;
  CHECK(lay_out(none).bytes == 0);
  const MemoryPlan plan = plan_memory(verified_graph("graph empty\nbatch %0: f32[8] x\nreturn\n  y = %0\n"));
  CHECK(plan.arena_bytes == 0);
  CHECK(plan.offsets == std::vector<std::int64_t>{-1});
}

TEST_CASE("equal graphs have equal plans") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const MemoryPlan a = plan_memory(random_graph(seed, 300), kOnCpu);
    const MemoryPlan b = plan_memory(random_graph(seed, 300), kOnCpu);
    CHECK(a.offsets == b.offsets);
    CHECK(a.arena_bytes == b.arena_bytes);
    REQUIRE(a.workspaces.size() == b.workspaces.size());
    for (std::size_t i = 0; i < a.workspaces.size(); ++i)
      CHECK(a.workspaces[i].offset == b.workspaces[i].offset);
  }
}

TEST_CASE("a reduce-scatter on the CPU has a workspace from its start to its wait") {
  const Graph graph = verified_graph(kReduction);
  const MemoryPlan plan = plan_memory(graph, memory_needs(TargetDevice::cpu));
  REQUIRE(plan.workspaces.size() == 1);
  const Workspace& workspace = plan.workspaces[0];
  CHECK(workspace.start == 1);
  CHECK(workspace.wait == 4);
  CHECK(workspace.bytes == 256);
  require_sound(graph, plan);
  // At the second negation: the sent and the received bytes, the result, and both short-lived
  // operands.
  CHECK(plan.live_peak_bytes == 256 + 256 + 128 + 2 * 256);

  const MemoryPlan elsewhere = plan_memory(graph, memory_needs(TargetDevice::cuda));
  CHECK(elsewhere.workspaces.empty());
  CHECK(elsewhere.alignment == 512);
  CHECK(elsewhere.live_peak_bytes == 4 * 512);  // storages of 256, 128, 256 and 256 bytes
}

TEST_CASE("temporaries of kernels are not placed in the workspace of a collective") {
  const Graph graph = verified_graph(kReduction);
  const MemoryPlan plan = plan_memory(graph, kOnCpu);
  const Workspace& workspace = plan.workspaces.at(0);
  std::vector<NodeIndex> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), NodeIndex(0));
  const std::vector<std::vector<Gap>> gaps = free_gaps(graph, plan, nodes);
  for (const NodeIndex now : nodes) {
    bool is_free = false;
    for (const Gap& gap : gaps[static_cast<std::size_t>(now)])
      is_free |= gap.offset < workspace.offset + workspace.bytes && workspace.offset < gap.offset + gap.bytes;
    if (workspace.start <= now && now <= workspace.wait) CHECK(!is_free);
  }
}

TEST_CASE("gaps are the bytes without a live storage, computed for all nodes or for one") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = random_graph(seed, 200);
    const MemoryPlan plan = plan_memory(graph, kOnCpu);
    const std::vector<Range> all = ranges_of(graph, plan);
    std::vector<NodeIndex> nodes(graph.nodes.size());
    std::iota(nodes.begin(), nodes.end(), NodeIndex(0));
    const std::vector<std::vector<Gap>> gaps = free_gaps(graph, plan, nodes);
    for (const NodeIndex now : nodes) {
      const std::vector<Gap>& here = gaps[static_cast<std::size_t>(now)];
      std::int64_t free = 0, standing = 0;
      for (const Gap& gap : here) free += gap.bytes;
      std::vector<char> taken(static_cast<std::size_t>(plan.arena_bytes));
      for (const Range& one : all)
        if (one.begin <= now && now <= one.end)
          std::fill_n(taken.begin() + one.offset,
                      (one.bytes + plan.alignment - 1) / plan.alignment * plan.alignment, 1);
      standing = std::count(taken.begin(), taken.end(), 1);
      REQUIRE(free + standing == plan.arena_bytes);
      for (const Gap& gap : here)
        REQUIRE(std::count(taken.begin() + gap.offset, taken.begin() + gap.offset + gap.bytes, 1) == 0);
      const std::vector<std::vector<Gap>> alone = free_gaps(graph, plan, std::array{now});
      REQUIRE(alone.at(0).size() == here.size());
    }
  }
}

TEST_CASE("random graphs waste little on average") {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) sum += waste(plan_memory(random_graph(seed, 400)));
  INFO(sum / 100);
  CHECK(sum / 100 < 0.02);
}
