// The devices of `rondo plan`: published figures, and the shares of them that programs reach. Plain
// data.
//
// Figures for one GPU (bf16 dense, without sparsity; links and network each way). All but memory
// are the makers':
//
//              TFLOP/s                             SMs GPUs a    link,
//   name        bf16  fp8 fp32      memory                node     GB/s   network  host    power
//   a100-40gb    312    - 19.5   39.38 GiB 1.555 TB/s  108   8        300  200 Gb/s  PCIe 4   400 W
//   a100-80gb    312    - 19.5   79.15 GiB 2.039 TB/s  108   8        300  200 Gb/s  PCIe 4   400 W
//   h100-pcie    756 1513   51    79.1 GiB   2.0 TB/s  114   8 PCIe 5, 64  400 Gb/s  PCIe 5   350 W
//   h100         989 1979   67    79.1 GiB  3.35 TB/s  132   8        450  400 Gb/s  PCIe 5   700 W
//   h100-96gb    989 1979   67      95 GiB   2.4 TB/s  132   8        450  400 Gb/s  PCIe 5   500 W
//   h20          148  296   44      95 GiB   4.0 TB/s   78   8        450  400 Gb/s  PCIe 5   400 W
//   h200         989 1979   67   139.8 GiB   4.8 TB/s  132   8        450  400 Gb/s  PCIe 5   700 W
//   b200        2250 4500   75   178.3 GiB   7.7 TB/s  148   8        900  400 Gb/s  PCIe 5  1000 W
//   b300        2250 4500   75     267 GiB   7.7 TB/s  148   8        900  800 Gb/s  PCIe 5  1100 W
//   gb200       2500 5000   80   184.3 GiB   8.0 TB/s  148  72        900  400 Gb/s  C2C 450 1200 W
//   gb300       2500 5000   80   276.5 GiB   8.0 TB/s  160  72        900  800 Gb/s  C2C 450 1400 W
//   l40s         362  733 91.6    44.4 GiB 0.864 TB/s  142   8 PCIe 4, 32  200 Gb/s  PCIe 4   350 W
//   rtx4090      165  330 82.6   23.64 GiB 1.008 TB/s  128   8 PCIe 4, 32  100 Gb/s  PCIe 4   450 W
//   rtxpro6000   504 1008  126    94.9 GiB 1.792 TB/s  188   8 PCIe 5, 64  400 Gb/s  PCIe 5   600 W
//   gb10         125  250   31   119.6 GiB 0.273 TB/s   48   1          -  200 Gb/s  memory   140 W
//
// From NVIDIA's data sheets: A100 Tensor Core GPU (SXM, 2022), H100 Tensor Core GPU (SXM5 and
// PCIe), H20, H200 Tensor Core GPU, HGX B200 and GB200 NVL72 (2025), HGX B300 and GB300 NVL72
// (2025), L40S (2023), RTX PRO 6000 Blackwell (2025), DGX Spark (2025: 1,000 TFLOP/s of sparse fp4,
// an eighth in bf16); RTX 4090 from the white paper of Ada, with sums in fp32. Multiprocessors
// are from the white papers of the architectures; network from the DGX user guides of the systems,
// one card a GPU, and an assumption for l40s, rtx4090 and rtxpro6000. Power is the limit of one GPU
// as it is delivered, from the data sheets; of h100-96gb from torchtitan; of b300 an assumption: a
// DGX B300 draws 14.5 kW, a DGX B200 14.3; of gb10 the limit of the chip. Memory is the amount
// that CUDA reports to programs (totalGlobalMem), the least in logs of PyTorch: an "80 GB" H100 has
// 79.1 GiB, which is 85 GB. h100-96gb is the part of torchtitan's published runs, "H100 with 96 GB
// HBM2e, 2.4 TB/s, 500 W" (its docs/benchmarks). In servers of PCIe cards the GPUs communicate over
// PCIe; bridges between two of them are not modelled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/options.h"
#include "support/fields.h"

namespace rondo::ir {

struct Link {
  double bytes_per_s = 0;  // through each rank, with large messages
  double hop_s = 0;        // latency from one rank to the next at that rate
  double small_hop_s = 0;  // latency of the protocol for small messages; 0: there is none
};

// The published figures of a GPU, in the units of the table. Links and network each way.
struct Card {
  std::string name;         // "h200"
  std::string description;  // full name: "NVIDIA H200 SXM, 141 GB"
  std::string reported;     // name in the driver: "NVIDIA H200"; "": unknown
  double bf16_tflops = 0, float8_tflops = 0, fp32_tflops = 0;
  double memory_gib = 0, memory_tb_per_s = 0;
  std::int64_t multiprocessors = 0, gpus_per_node = 0;
  double link_gb_per_s = 0, network_gbit_per_s = 0, host_gb_per_s = 0;  // of each GPU
  double power_w = 0;                                                   // 0: unknown
  double sustained_fraction = 1;                                        // as in DeviceModel
  bool float8_blocks = false;     // has float8 products with scales of 128 elements
  bool float8_mx = false;         // has float8 products with scales of 32 elements (MXFP8)
  double nvfp4_tflops = 0;        // 0: no products in NVFP4
  std::string also = {};          // another name that people type; "": none
  double matmul_fraction = 0.85;  // as in DeviceModel

  static constexpr std::int64_t kMaxGpusPerNode = 1024;
  // The fields that a file of --device-file may have. A field whose default breaks its own rule is
  // required.
  static const Fields& fields();
};

struct DeviceModel {
  std::string name, also, what, reported;  // of Card; `what` is its description
  bool is_gpu = true;
  double power_w = 0;                  // limit of each GPU; 0: unknown
  std::int64_t memory_bytes = 0;       // 0: the memory of this machine
  std::int64_t reserve_bytes = 0;      // part of memory_bytes without tensors
  double peak_float8_flops_per_s = 0;  // 0: no float8 products
  double peak_nvfp4_flops_per_s = 0;   // 0: no products in NVFP4
  double peak_16bit_flops_per_s = 0;
  double peak_fp32_flops_per_s = 0;
  double peak_memory_bytes_per_s = 0;
  int multiprocessors = 0;     // for the tiles of a product; 0: all shapes have one rate
  double matmul_fraction = 1;  // of the peak, with full tiles
  // The share of the rates above and of attention that the power limit sustains in a step. Products
  // that are slower for their shape are not slowed.
  double sustained_fraction = 1;
  double float8_fraction = 1;             // of the peak, with a scale per matrix or row
  double float8_blocks_fraction = 0;      // of the peak, with scales of 128 elements; 0: none
  double float8_mx_fraction = 0;          // of the peak, with scales of 32 elements (MXFP8); 0: none
  double attention_forward_fraction = 1;  // of the peak, with a long sequence
  double attention_backward_fraction = 1;
  double any_positions_fraction = 0.01;  // of the peak, if keys have positions; an assumption
  double attention_forward_half = 0;     // tokens of a sequence with half of the fraction
  double attention_backward_half = 0;
  double memory_fraction = 1;
  double launch_s = 0;     // lower bound of the time of an op
  int ranks_per_node = 8;  // ranks that share the fast links
  Link within_node;
  Link between_nodes;            // for all ranks of a node together
  double exchange_fraction = 1;  // of the links' rate, if the host waits for sizes
  double exchange_s = 0;         // the wait of the host in such an exchange
  double contention = 0;         // bytes of memory traffic that compute loses for each hidden byte sent
  double host_bytes_per_s = 0;   // between device memory and host memory, each way
};

// Multiplies a rate by a measured factor: "matmul", "attention", "memory", "links", "network",
// "exchange" or "contention". Returns false for another name.
bool scale_rate(DeviceModel& device, std::string_view what, double factor);

// Returns the model of a GPU with these figures, at the rates that programs reach.
DeviceModel device_model(const Card& card);

// Each changes one figure of a GPU. Two return "" or the broken rule, "must be ...".
std::string set_gpus_per_node(DeviceModel& device, std::int64_t gpus);
void set_network(DeviceModel& device, double gbit_per_s);  // of each GPU, each way
// Lowers the power limit of each GPU. Products and attention keep the share (limit / old limit)^0.4
// of their rate, as Hoppers with 350, 500 and 700 W do.
std::string set_power(DeviceModel& device, double watts);

// Return the cards in the order of the table, and their models in that order, then "cpu".
std::span<const Card> cards();
std::span<const DeviceModel> device_models();
// Returns a device by one of its names or its name in the driver, or nullptr.
const DeviceModel* find_device_model(std::string_view name);
// Returns the device for the decisions of passes: an H200 for every GPU, so that all ranks decide
// alike.
const DeviceModel& device_model_for(TargetDevice device);

}  // namespace rondo::ir
