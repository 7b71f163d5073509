// One row a GPU, as in the header's table. Programs reach the same share of the figures on all GPUs,
// but for the power limit:
//
// - matmul 0.85 of the peak with full tiles, full waves and long sums. 8192^3 then runs at 790 TFLOP/s on an
//   H100 or H200, and 4096^3 at 760 (cost_model.cpp): the rates published for cuBLAS.
// - float8: 0.96 of that share with a scale a matrix and 0.74 with scales of 128 elements, which cuBLASLt has for
//   Hopper only. On an H200 the product by w1 reaches 1,333 TFLOP/s with a scale a matrix, 1,374 with a scale a row,
//   1,115 and 894 with scales of 128, and products in bf16 693 (docs/results/gpu_check_2026-11-26.md). Assumes
//   that scales of rows cost as much as one of a matrix.
// - attention: cuDNN 9 on an H200, causal, bf16, head 128, counting the causal half: with 2, 4, 8 and 16
//   thousand tokens 484, 591, 644 and 673 TFLOP/s forward, 370, 474, 541 and 579 backward. Rate and half-way
//   length are fitted to these.
// - attention to keys at any positions 0.01 of the peak: a kernel without tensor cores that reads keys from
//   the L2 cache once a query. An assumption.
// - memory 0.80: on an H200 in a step AdamW reaches 0.71 of the figure; alone it reaches 0.84, SwiGLU 0.87 and a
//   copy 0.88 (docs/results/gpu_check_2026-11-26.md).
// - launch 4 us: the usual cost of a CUDA launch with its arguments, issued by a C++ executor.
// - within a node, 0.80 of the links and 9 us a hop give the published rates of NCCL all-reduces on 8 H100:
//   30 % of the peak at 16 MiB, 67 % at 128 MiB.
// - between nodes, 0.95 of a node's cards and 7.3 us a hop give, within 5 points, the published 24 %, 41 %,
//   86 % at 32, 64 and 512 MiB on 4 nodes of 8 H100.
// - small messages: 1 us a hop within a node and 7 us between nodes, as in NCCL's model (tuning.cc).
// - exchange 0.50 of the links' rate and 50 us for the host, if tokens go to their experts in sizes that it must
//   know first. Runs with DeepEP reach 0.5 to 1, runs with separate all-to-alls 0.1.
// - contention: each byte that a hidden collective sends costs compute 3 bytes of memory traffic. It is read,
//   received and written, and the copies take multiprocessors.
// - sustained, by card: what the power limit leaves. 0.79 of a Hopper with 700 W makes the steps of the check of an
//   H200 as fast as they were, within 3 %; products ran at 693 TFLOP/s there, 664 as planned. An H100 PCIe (350 W) reaches 433 in bf16 (torchao,
//   issue 3342). h100-96gb (500 W), A100 and Blackwell are fitted to published runs. The others are limited by
//   their figures alone. docs/results/backcast_2026-11-26.md has the runs, and how far each misses.
// - host 0.85 of the link: the usual rate of large copies from pinned memory.
// - reserve: 3 GiB of a GPU for the CUDA context, NCCL's buffers and cuBLAS's workspaces.
//
// The CPU is two cores of Zen 4: 188 GFLOP/s fp32 and 410 bf16 in large matrix products, 28 GB/s
// copy (all measured, so shares are 1). Gloo over loopback shares that memory: a fifth of it and
// 100 us a hop are assumptions.
#include "compiler/plan/devices/devices.h"

#include <array>

namespace rondo::ir {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kGibi = 1 << 30;
constexpr double kPcie4 = 32, kPcie5 = 64, kGraceLink = 450, kGb10 = 136;  // GB/s each way

struct Published {
  std::string_view name, what, reported;
  double bf16_tflops, float8_tflops, fp32_tflops, memory_gib, memory_tb_per_s;
  int multiprocessors, linked;
  double link_gb_per_s, network_gbit_per_s, host_gb_per_s;
  double sustained_fraction;
  bool has_float8_blocks = false;
  std::string_view also = {};
};

constexpr DeviceModel gpu(const Published& p) {
  DeviceModel d;
  d.name = p.name;
  d.also = p.also;
  d.what = p.what;
  d.reported = p.reported;
  d.memory_bytes = static_cast<std::int64_t>(p.memory_gib * kGibi);
  d.reserve_bytes = std::int64_t{3} << 30;
  d.peak_16bit_flops_per_s = p.bf16_tflops * kTera;
  d.peak_float8_flops_per_s = p.float8_tflops * kTera;
  d.peak_fp32_flops_per_s = p.fp32_tflops * kTera;
  d.peak_memory_bytes_per_s = p.memory_tb_per_s * kTera;
  d.multiprocessors = p.multiprocessors;
  d.matmul_fraction = 0.85;
  d.sustained_fraction = p.sustained_fraction;
  d.float8_fraction = 0.96;
  d.float8_blocks_fraction = p.has_float8_blocks ? 0.74 : 0;
  d.attention_forward_fraction = 724.0 / 989;
  d.attention_backward_fraction = 639.0 / 989;
  d.attention_forward_half = 1014;
  d.attention_backward_half = 1491;
  d.memory_fraction = 0.80;
  d.launch_s = 4e-6;
  d.ranks_per_node = p.linked;
  d.within_node = {p.link_gb_per_s * kGiga * 0.80, 9e-6, 1e-6};
  d.between_nodes = {p.linked * p.network_gbit_per_s / 8 * kGiga * 0.95, 7.3e-6, 7e-6};
  d.exchange_fraction = 0.50;
  d.exchange_s = 50e-6;
  d.contention = 3;
  d.host_bytes_per_s = p.host_gb_per_s * kGiga * 0.85;
  return d;
}

constexpr DeviceModel two_cores() {
  DeviceModel d;
  d.name = "cpu";
  d.what = "two cores of Zen 4";
  d.is_gpu = false;
  d.peak_16bit_flops_per_s = 410e9;
  d.peak_fp32_flops_per_s = 188e9;
  d.peak_memory_bytes_per_s = 28e9;
  d.launch_s = 0.9e-6;
  d.within_node = d.between_nodes = {28e9 / 5, 100e-6};
  d.host_bytes_per_s = 28e9 / 2;  // a copy reads and writes the same memory
  return d;
}

constexpr std::array kDevices = {
    gpu({"a100-40gb", "NVIDIA A100 SXM, 40 GB", "NVIDIA A100-SXM4-40GB", 312, 0, 19.5, 39.38, 1.555, 108, 8,
         300, 200, kPcie4, 0.82}),
    gpu({"a100-80gb", "NVIDIA A100 SXM, 80 GB", "NVIDIA A100-SXM4-80GB", 312, 0, 19.5, 79.15, 2.039, 108, 8,
         300, 200, kPcie4, 0.85}),
    gpu({"h100-pcie", "NVIDIA H100 PCIe, 80 GB", "NVIDIA H100 PCIe", 756, 1513, 51, 79.1, 2.0, 114, 8, kPcie5,
         400, kPcie5, 0.67, true}),
    gpu({"h100", "NVIDIA H100 SXM, 80 GB", "NVIDIA H100 80GB HBM3", 989, 1979, 67, 79.1, 3.35, 132, 8, 450,
         400, kPcie5, 0.79, true, "h100-80gb"}),
    gpu({"h100-96gb", "NVIDIA H100 SXM, 96 GB at 2.4 TB/s", "", 989, 1979, 67, 95, 2.4, 132, 8, 450, 400,
         kPcie5, 0.69, true}),
    gpu({"h20", "NVIDIA H20 SXM, 96 GB", "NVIDIA H20", 148, 296, 44, 95, 4.0, 78, 8, 450, 400, kPcie5, 1,
         true}),
    gpu({"h200", "NVIDIA H200 SXM, 141 GB", "NVIDIA H200", 989, 1979, 67, 139.8, 4.8, 132, 8, 450, 400,
         kPcie5, 0.79, true}),
    gpu({"b200", "NVIDIA HGX B200, 180 GB", "NVIDIA B200", 2250, 4500, 75, 178.3, 7.7, 148, 8, 900, 400,
         kPcie5, 0.82}),
    gpu({"b300", "NVIDIA HGX B300, 288 GB", "NVIDIA B300 SXM6 AC", 2250, 4500, 75, 267, 7.7, 148, 8, 900, 800,
         kPcie5, 0.82}),
    gpu({"gb200", "NVIDIA GB200 NVL72, 186 GB", "NVIDIA GB200", 2500, 5000, 80, 184.3, 8.0, 148, 72, 900, 400,
         kGraceLink, 0.77}),
    gpu({"gb300", "NVIDIA GB300 NVL72, 279 GB", "NVIDIA GB300", 2500, 5000, 80, 276.5, 8.0, 160, 72, 900, 800,
         kGraceLink, 0.95}),
    gpu({"l40s", "NVIDIA L40S, 48 GB", "NVIDIA L40S", 362, 733, 91.6, 44.4, 0.864, 142, 8, kPcie4, 200,
         kPcie4, 1}),
    gpu({"rtx4090", "NVIDIA GeForce RTX 4090, 24 GB", "NVIDIA GeForce RTX 4090", 165, 330, 82.6, 23.64, 1.008,
         128, 8, kPcie4, 100, kPcie4, 1, false, "4090"}),
    gpu({"rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell, 96 GB", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
         504, 1008, 126, 94.9, 1.792, 188, 8, kPcie5, 400, kPcie5, 1}),
    gpu({"gb10", "NVIDIA GB10, 128 GB", "NVIDIA GB10", 125, 250, 31, 119.6, 0.273, 48, 1, 0, 200, kGb10, 1,
         false, "dgx-spark"}),
    two_cores(),
};

}  // namespace

std::span<const DeviceModel> device_models() { return kDevices; }

const DeviceModel* find_device_model(std::string_view name) {
  for (const DeviceModel& device : kDevices)
    if (!name.empty() && (device.name == name || device.also == name || device.reported == name))
      return &device;
  return nullptr;
}

bool scale_rate(DeviceModel& device, std::string_view what, double factor) {
  if (what == "matmul") {
    device.matmul_fraction *= factor;
  } else if (what == "attention") {
    device.attention_forward_fraction *= factor;
    device.attention_backward_fraction *= factor;
    device.any_positions_fraction *= factor;
  } else if (what == "memory") {
    device.memory_fraction *= factor;
  } else if (what == "links") {
    device.within_node.bytes_per_s *= factor;
  } else if (what == "network") {
    device.between_nodes.bytes_per_s *= factor;
  } else if (what == "exchange") {
    device.exchange_fraction *= factor;
  } else if (what == "contention") {
    device.contention *= factor;
  } else {
    return false;
  }
  return true;
}

const DeviceModel& device_model_for(TargetDevice device) {
  // A decision to merge products changes bits of results, so the card is at full clocks, and copies are
  // alone. Buckets grow by the ring's latency.
  static const DeviceModel at_full_clocks = [] {
    DeviceModel h200 = *find_device_model("h200");
    h200.sustained_fraction = 1;
    h200.memory_fraction = 0.90;
    h200.within_node.small_hop_s = h200.between_nodes.small_hop_s = 0;
    return h200;
  }();
  return device == TargetDevice::cuda ? at_full_clocks : *find_device_model("cpu");
}

}  // namespace rondo::ir
