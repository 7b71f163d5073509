// One row a GPU, as in the header's table. Programs reach the same share of the figures on all
// GPUs, but for the power limit:
//
// - matmul 0.85 of the peak with full tiles, full waves and long sums. 8192^3 then runs at 790
//   TFLOP/s on an H100 or H200, and 4096^3 at 760 (cost_model.cpp): the rates published for cuBLAS.
//   On an RTX 4090 1.06: 8192^3 runs at 175 TFLOP/s for two minutes (gpu-bench, cuBLASLt), as its
//   clock is above the one of the figure.
// - float8: 0.96 of that share with a scale a matrix and 0.74 with scales of 128 elements, which
//   cuBLASLt has for Hopper only. On an H200 the product by w1 reaches 1,333 TFLOP/s with a scale a
//   matrix, 1,374 with a scale a row, 1,115 and 894 with scales of 128, and products in bf16 693
//   (docs/results/gpu_check_2026-11-26.md). Assumes that scales of rows cost as much as one of a
//   matrix, and so do scales of 32 (MXFP8), which tensor cores of data-center Blackwells apply.
//   NVFP4 reaches the same share of its own peak: an assumption.
// - attention: cuDNN 9 on an H200, causal, bf16, head 128, counting the causal half: with 2, 4, 8
//   and 16 thousand tokens 484, 591, 644 and 673 TFLOP/s forward, 370, 474, 541 and 579 backward.
//   Rate and half-way length are fitted to these.
// - attention to keys at any positions 0.01 of the peak: a kernel without tensor cores that reads
//   keys from the L2 cache once a query. An assumption.
// - memory 0.80: on an H200 in a step AdamW reaches 0.71 of the figure; alone it reaches 0.84,
//   SwiGLU 0.87 and a copy 0.88 (docs/results/gpu_check_2026-11-26.md).
// - launch 4 us: the usual cost of a CUDA launch with its arguments, issued by a C++ executor.
// - within a node, 0.80 of the links and 9 us a hop give the published rates of NCCL all-reduces on
//   8 H100: 30 % of the peak at 16 MiB, 67 % at 128 MiB.
// - between nodes, 0.95 of a node's cards and 7.3 us a hop give, within 5 points, the published 24
//   %, 41 %, 86 % at 32, 64 and 512 MiB on 4 nodes of 8 H100.
// - small messages: 1 us a hop within a node and 7 us between nodes, as in NCCL's model
//   (tuning.cc).
// - exchange 0.50 of the links' rate and 50 us for the host, if tokens go to their experts in sizes
//   that it must know first. Runs with DeepEP reach 0.5 to 1, runs with separate all-to-alls 0.1.
// - contention: each byte that a hidden collective sends costs compute 3 bytes of memory traffic.
//   It is read, received and written, and the copies take multiprocessors.
// - sustained, by card: what the power limit leaves. 0.79 of a Hopper with 700 W makes the steps of
//   the check of an H200 as fast as they were, within 3 %; products ran at 693 TFLOP/s there, 664
//   as planned. An H100 PCIe (350 W) reaches 433 in bf16 (torchao, issue 3342), an L40S (350 W) 230
//   (LLMQ's authors). h100-96gb (500 W), A100 and Blackwell are fitted to published runs. The
//   others are limited by their figures alone. docs/results/backcast_2026-11-27.md has the runs,
//   and how far each misses.
// - a lower power limit: (limit / own limit)^0.4 of the sustained rate. Hoppers with 700 and 500 W
//   sustain 0.79 and 0.69, and one with 350 W 0.75 as much for each multiprocessor as one with 700
//   W.
// - host 0.85 of the link: the usual rate of large copies from pinned memory.
// - reserve: 3 GiB of a GPU for the CUDA context, NCCL's buffers and cuBLAS's workspaces.
//
// The CPU is two cores of Zen 4: 188 GFLOP/s fp32 and 410 bf16 in large matrix products, 28 GB/s
// copy (all measured, so shares are 1). Gloo over loopback shares that memory: a fifth of it and
// 100 us a hop are assumptions.
#include "compiler/plan/devices/devices.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace rondo::ir {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kGibi = 1 << 30;
constexpr double kNetworkShare = 0.95, kPowerExponent = 0.4;
constexpr double kPcie4 = 32, kPcie5 = 64, kGraceLink = 450, kGb10 = 136;  // GB/s each way

DeviceModel two_cores() {
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

// Returns the bytes per second of a node's network cards together.
double network_bytes_per_s(std::int64_t gpus, double gbit_per_s) {
  return static_cast<double>(gpus) * gbit_per_s / 8 * kGiga * kNetworkShare;
}

// Returns the card, whose large products reach this share of its figure.
Card with_products(Card card, double fraction) {
  card.matmul_fraction = fraction;
  return card;
}

const std::vector<Card>& all_cards() {
  static const std::vector<Card> list = {
      {"a100-40gb", "NVIDIA A100 SXM, 40 GB", "NVIDIA A100-SXM4-40GB", 312, 0, 19.5, 39.38, 1.555, 108, 8,
       300, 200, kPcie4, 400, 0.85},
      {"a100-80gb", "NVIDIA A100 SXM, 80 GB", "NVIDIA A100-SXM4-80GB", 312, 0, 19.5, 79.15, 2.039, 108, 8,
       300, 200, kPcie4, 400, 0.94},
      {"h100-pcie", "NVIDIA H100 PCIe, 80 GB", "NVIDIA H100 PCIe", 756, 1513, 51, 79.1, 2.0, 114, 8, kPcie5,
       400, kPcie5, 350, 0.67, true},
      {"h100", "NVIDIA H100 SXM, 80 GB", "NVIDIA H100 80GB HBM3", 989, 1979, 67, 79.1, 3.35, 132, 8, 450, 400,
       kPcie5, 700, 0.79, true, false, 0, "h100-80gb"},
      {"h100-96gb", "NVIDIA H100 SXM, 96 GB at 2.4 TB/s", "", 989, 1979, 67, 95, 2.4, 132, 8, 450, 400,
       kPcie5, 500, 0.69, true},
      {"h20", "NVIDIA H20 SXM, 96 GB", "NVIDIA H20", 148, 296, 44, 95, 4.0, 78, 8, 450, 400, kPcie5, 400, 1,
       true},
      {"h200", "NVIDIA H200 SXM, 141 GB", "NVIDIA H200", 989, 1979, 67, 139.8, 4.8, 132, 8, 450, 400, kPcie5,
       700, 0.79, true},
      {"b200", "NVIDIA HGX B200, 180 GB", "NVIDIA B200", 2250, 4500, 75, 178.3, 7.7, 148, 8, 900, 400, kPcie5,
       1000, 0.82, false, true, 9000},
      {"b300", "NVIDIA HGX B300, 288 GB", "NVIDIA B300 SXM6 AC", 2250, 4500, 75, 267, 7.7, 148, 8, 900, 800,
       kPcie5, 1100, 0.82, false, true, 13500},
      {"gb200", "NVIDIA GB200 NVL72, 186 GB", "NVIDIA GB200", 2500, 5000, 80, 184.3, 8.0, 148, 72, 900, 400,
       kGraceLink, 1200, 0.77, false, true, 10000},
      {"gb300", "NVIDIA GB300 NVL72, 279 GB", "NVIDIA GB300", 2500, 5000, 80, 276.5, 8.0, 160, 72, 900, 800,
       kGraceLink, 1400, 0.95, false, true, 15000},
      {"l40s", "NVIDIA L40S, 48 GB", "NVIDIA L40S", 362, 733, 91.6, 44.4, 0.864, 142, 8, kPcie4, 200, kPcie4,
       350, 0.75},
      with_products({"rtx4090", "NVIDIA GeForce RTX 4090, 24 GB", "NVIDIA GeForce RTX 4090", 165, 330, 82.6,
                     23.64, 1.008, 128, 8, kPcie4, 100, kPcie4, 450, 1, false, false, 0, "4090"},
                    1.06),
      {"rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell, 96 GB", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
       504, 1008, 126, 94.9, 1.792, 188, 8, kPcie5, 400, kPcie5, 600, 1},
      {"gb10", "NVIDIA GB10, 128 GB", "NVIDIA GB10", 125, 250, 31, 119.6, 0.273, 48, 1, 0, 200, kGb10, 140, 1,
       false, false, 0, "dgx-spark"},
  };
  return list;
}

}  // namespace

const Fields& Card::fields() {
  const auto figure = [](const char* unit) { return FieldRule{.above = 0, .maximum = 1e6, .unit = unit}; };
  const auto filled = [](const FieldValue& value) {
    return std::get<std::string>(value).empty() ? std::string("must not be empty") : std::string();
  };
  static const Fields list = {
      field("name", &Card::name, "name in the plan", {.check = filled}),
      field("description", &Card::description, "full name"),
      field("bf16_tflops", &Card::bf16_tflops, "dense products in bf16", figure("TFLOP/s")),
      field("float8_tflops", &Card::float8_tflops, "dense products in float8; 0: none",
            {.minimum = 0, .maximum = 1e6, .unit = "TFLOP/s"}),
      field("float8_blocks", &Card::float8_blocks, "float8 products with scales of 128 elements"),
      field("float8_mx", &Card::float8_mx, "float8 products with scales of 32 elements (MXFP8)"),
      field("nvfp4_tflops", &Card::nvfp4_tflops, "dense products in NVFP4; 0: none",
            {.minimum = 0, .maximum = 1e6, .unit = "TFLOP/s"}),
      field("fp32_tflops", &Card::fp32_tflops, "products in fp32", figure("TFLOP/s")),
      field("memory_gib", &Card::memory_gib, "memory, as CUDA reports it to programs",
            {.above = 3, .maximum = 1e6, .unit = "GiB"}),
      field("memory_tb_per_s", &Card::memory_tb_per_s, "rate of the memory", figure("TB/s")),
      field("multiprocessors", &Card::multiprocessors, "streaming multiprocessors",
            {.minimum = 1, .maximum = 1e6}),
      field("gpus_per_node", &Card::gpus_per_node, "GPUs that share fast links",
            {.minimum = 1, .maximum = kMaxGpusPerNode}),
      field("link_gb_per_s", &Card::link_gb_per_s, "links of a GPU within a node, each way", figure("GB/s")),
      field("network_gbit_per_s", &Card::network_gbit_per_s, "network of a GPU, each way", figure("Gb/s")),
      field("host_gb_per_s", &Card::host_gb_per_s, "link of a GPU to the host's memory, each way",
            figure("GB/s")),
      field("power_w", &Card::power_w, "power limit of a GPU; 0: unknown",
            {.minimum = 0, .maximum = 1e6, .unit = "W"}),
      field("sustained_fraction", &Card::sustained_fraction,
            "share of the rates of products that the power limit sustains", {.above = 0, .maximum = 1}),
      field("matmul_fraction", &Card::matmul_fraction,
            "share of the dense rates that large products reach without a power limit",
            {.above = 0, .maximum = 1.25}),
  };
  return list;
}

DeviceModel device_model(const Card& card) {
  DeviceModel d;
  d.name = card.name;
  d.also = card.also;
  d.what = card.description;
  d.reported = card.reported;
  d.power_w = card.power_w;
  d.memory_bytes = static_cast<std::int64_t>(card.memory_gib * kGibi);
  d.reserve_bytes = std::int64_t{3} << 30;
  d.peak_16bit_flops_per_s = card.bf16_tflops * kTera;
  d.peak_float8_flops_per_s = card.float8_tflops * kTera;
  d.peak_nvfp4_flops_per_s = card.nvfp4_tflops * kTera;
  d.peak_fp32_flops_per_s = card.fp32_tflops * kTera;
  d.peak_memory_bytes_per_s = card.memory_tb_per_s * kTera;
  d.multiprocessors = static_cast<int>(card.multiprocessors);
  d.matmul_fraction = card.matmul_fraction;
  d.sustained_fraction = card.sustained_fraction;
  d.float8_fraction = 0.96;
  d.float8_blocks_fraction = card.float8_blocks ? 0.74 : 0;
  d.float8_mx_fraction = card.float8_mx ? d.float8_fraction : 0;
  d.attention_forward_fraction = 724.0 / 989;
  d.attention_backward_fraction = 639.0 / 989;
  d.attention_forward_half = 1014;
  d.attention_backward_half = 1491;
  d.memory_fraction = 0.80;
  d.launch_s = 4e-6;
  d.ranks_per_node = static_cast<int>(card.gpus_per_node);
  d.within_node = {card.link_gb_per_s * kGiga * 0.80, 9e-6, 1e-6};
  d.between_nodes = {network_bytes_per_s(card.gpus_per_node, card.network_gbit_per_s), 7.3e-6, 7e-6};
  d.exchange_fraction = 0.50;
  d.exchange_s = 50e-6;
  d.contention = 3;
  d.host_bytes_per_s = card.host_gb_per_s * kGiga * 0.85;
  return d;
}

std::string set_gpus_per_node(DeviceModel& device, std::int64_t gpus) {
  if (gpus > 1 && device.within_node.bytes_per_s == 0)
    return fmt::format("must be 1 for {}, which has no links within a node", device.name);
  device.between_nodes.bytes_per_s *= static_cast<double>(gpus) / device.ranks_per_node;
  device.ranks_per_node = static_cast<int>(gpus);
  return "";
}

void set_network(DeviceModel& device, double gbit_per_s) {
  device.between_nodes.bytes_per_s = network_bytes_per_s(device.ranks_per_node, gbit_per_s);
}

std::string set_power(DeviceModel& device, double watts) {
  if (device.power_w == 0) return fmt::format("needs power_w in the file of {}", device.name);
  if (watts < device.power_w / 4 || watts > device.power_w)
    return fmt::format("must be from {:g} to {:g}, the limit of {}", device.power_w / 4, device.power_w,
                       device.name);
  device.sustained_fraction *= std::pow(watts / device.power_w, kPowerExponent);
  device.power_w = watts;
  return "";
}

std::span<const Card> cards() { return all_cards(); }

std::span<const DeviceModel> device_models() {
  static const std::vector<DeviceModel> list = [] {
    std::vector<DeviceModel> models;
    for (const Card& card : all_cards()) models.push_back(device_model(card));
    models.push_back(two_cores());
    return models;
  }();
  return list;
}

const DeviceModel* find_device_model(std::string_view name) {
  for (const DeviceModel& device : device_models())
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
  // A decision to merge products changes bits of results, so the card is at full clocks, and copies
  // are alone. Buckets grow by the ring's latency.
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
