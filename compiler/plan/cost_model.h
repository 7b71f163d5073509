// What the ops of a graph cost on a device, from published figures: a roofline for compute, a ring for
// collectives. Plain C++, pure functions.
//
// The roofline takes each op as one kernel that reads its operands and writes its results once, from and to
// the device's memory: nothing stays in a cache from one op to the next, and no two ops are fused. A node
// takes the longest of: its floating-point operations at the rate that large matrix products (or attention)
// reach, its bytes at the rate that large copies reach, and one launch. Views, waits and allocations take
// nothing. Not modelled: tile and wave effects of odd sizes, clocks under a power limit, and that running
// collectives take memory bandwidth and multiprocessors from compute.
//
// The ring: n ranks pass pieces around, so a gather or a reduce-scatter of S bytes in all moves
// (n - 1) / n * S through each rank in n - 1 hops, an all-reduce twice that. Ranks of one node talk over its
// own links; a group that spans nodes runs at the rate at which a node's network cards together take data in.
//
// Constants and where they come from:
//   peaks          NVIDIA's data sheets, H100 SXM5 and H200: 989 TFLOP/s bf16 dense, 67 fp32 (no TF32; MFU by
//                  torchtitan's convention divides by the same 989), 80 GB at 3.35 TB/s, 141 GB at 4.8 TB/s.
//   h100-96gb      the part of torchtitan's published runs, "H100 with 96 GB HBM2e, 2.4 TB/s, 500 W" (its
//                  docs/benchmarks); peaks as above. Its power limit is not modelled.
//   matmul 0.80    about 790 TFLOP/s in bf16 at 8192^3, the largest rate published for these parts.
//   attention      cuDNN 9, causal, 8k tokens, head 128: 644 TFLOP/s forward, 541 backward, counting the
//                  causal half, which is what the device computes.
//   memory 0.90    4.3 of 4.8 TB/s for a large copy on H200.
//   launch         4 us: the usual cost of a CUDA launch with its arguments, issued by a C++ executor.
//   within a node  NVLink 4: 450 GB/s each way; 0.80 of it and 9 us a hop give the published rates of NCCL
//                  all-reduces in a node of 8: 30 % of peak at 16 MiB, 67 % at 128 MiB.
//   between nodes  one 400 Gb/s card a GPU, 8 in a node: 400 GB/s into a node; 0.95 of it and 7.3 us a hop
//                  give, within 5 points, the published 24 %, 41 % and 86 % at 32, 64 and 512 MiB on 4 nodes.
//   host           PCIe 5 x16, 64 GB/s each way; 0.85 of it is what large copies from pinned memory usually
//   reach. reserve        3 GiB of a GPU that tensors cannot have: CUDA context, NCCL's buffers, cuBLAS's
//   workspaces. cpu            two cores of Zen 4: 188 GFLOP/s fp32 and 410 bf16 in large matrix products, 28
//   GB/s copy
//                  (all measured, so fractions are 1; no data sheet's peak). Gloo over loopback shares that
//                  memory: a fifth of it and 100 us a hop are assumptions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/ir.h"
#include "compiler/ir/op_facts.h"
#include "compiler/ir/options.h"

namespace rondo::ir {

struct Link {
  double bytes_per_s = 0;  // through each rank, as large messages reach it
  double hop_s = 0;        // from one rank to the next, however little is sent
};

struct DeviceModel {
  std::string_view name;  // "h200"
  std::string_view what;  // for the reader: "NVIDIA H200 SXM, 141 GB"
  bool is_gpu = true;
  std::int64_t memory_bytes = 0;   // 0: of the machine that asks
  std::int64_t reserve_bytes = 0;  // of these, what tensors cannot have
  double peak_16bit_flops_per_s = 0;
  double peak_fp32_flops_per_s = 0;
  double peak_memory_bytes_per_s = 0;
  double matmul_fraction = 1;  // of the peak, that large ops reach
  double attention_forward_fraction = 1;
  double attention_backward_fraction = 1;
  double memory_fraction = 1;
  double launch_s = 0;
  int ranks_per_node = 8;
  Link within_node;
  Link between_nodes;
  double host_bytes_per_s = 0;  // between the device's memory and the host's, each way
};

std::span<const DeviceModel> device_models();
const DeviceModel* find_device_model(std::string_view name);  // nullptr: unknown
// What passes decide by, so that all ranks decide alike: an H200 for every GPU.
const DeviceModel& device_model_for(TargetDevice device);

// What bounds a node.
enum class CostKind : std::uint8_t { nothing, matmul, attention, memory, launch };
struct NodeCost {
  double seconds = 0;
  CostKind kind = CostKind::nothing;
};
// Bytes read and written by a node: operands and results, each once.
double bytes_moved(const Graph& graph, const Node& node);
// Of compute alone: a collective's start costs nothing here.
NodeCost node_cost(const Graph& graph, const Node& node, const DeviceModel& device);
inline double node_seconds(const Graph& graph, const Node& node, const DeviceModel& device) {
  return node_cost(graph, node, device).seconds;
}

// Of the whole: a gather's result, a reduce-scatter's operand. REQUIRES: the node is a collective
// (op_facts.h).
double collective_bytes(const Graph& graph, const Node& node);

// Bytes that each rank sends, and how long it takes alone on the link. `stride`: from one rank of the group
// to the next. Groups that lie between each other call their collectives at the same time, so they share a
// node's links to other nodes.
double sent_bytes(CollectiveKind kind, double bytes, std::int64_t ranks);
double collective_seconds(CollectiveKind kind, double bytes, std::int64_t ranks, const DeviceModel& device,
                          std::int64_t stride = 1);
// Whether such a group stays on one node.
bool within_node(std::int64_t ranks, std::int64_t stride, const DeviceModel& device);

}  // namespace rondo::ir
