// The devices of `rondo plan`: published figures, and the shares of them that programs reach. Plain
// data.
//
// Figures for one GPU (bf16 dense, without sparsity; links and network each way). All but memory
// are the makers':
//
//   name       TFLOP/s bf16, fp8, fp32   memory           SMs   GPUs a link, GB/s   network   host
//   a100-40gb     312     -   19.5   39.38 GiB  1.555 TB/s  108     8         300     200 Gb/s   PCIe 4
//   a100-80gb     312     -   19.5   79.15 GiB  2.039 TB/s  108     8         300     200 Gb/s   PCIe 4
//   h100-pcie     756  1513   51     79.1 GiB   2.0 TB/s    114     8  PCIe 5, 64     400 Gb/s   PCIe 5
//   h100          989  1979   67     79.1 GiB   3.35 TB/s   132     8         450     400 Gb/s   PCIe 5
//   h100-96gb     989  1979   67     95 GiB     2.4 TB/s    132     8         450     400 Gb/s   PCIe 5
//   h200          989  1979   67    139.8 GiB   4.8 TB/s    132     8         450     400 Gb/s   PCIe 5
//   b200         2250  4500   75    178.3 GiB   7.7 TB/s    148     8         900     400 Gb/s   PCIe 5
//   gb200        2500  5000   80    184.3 GiB   8.0 TB/s    148    72         900     400 Gb/s   C2C 450
//   gb300        2500  5000   80    276.5 GiB   8.0 TB/s    160    72         900     800 Gb/s   C2C 450
//
// From NVIDIA's data sheets: A100 Tensor Core GPU (SXM, 2022), H100 Tensor Core GPU (SXM5 and
// PCIe), H200 Tensor Core GPU, HGX B200 and GB200 NVL72 (2025), GB300 NVL72 (2025); multiprocessors
// from the white papers of the architectures; network from the DGX user guides of the systems, one
// card a GPU. Memory is the amount that CUDA reports to programs (totalGlobalMem), the least in
// logs of PyTorch: an "80 GB" H100 has 79.1 GiB, which is 85 GB. h100-96gb is the part of
// torchtitan's published runs, "H100 with 96 GB HBM2e, 2.4 TB/s, 500 W" (its docs/benchmarks). In
// servers of PCIe cards the GPUs communicate over PCIe; bridges between two of them are not
// modelled.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/options.h"

namespace rondo::ir {

struct Link {
  double bytes_per_s = 0;  // through each rank, with large messages
  double hop_s = 0;        // latency from one rank to the next
};

struct DeviceModel {
  std::string_view name;      // "h200"
  std::string_view what;      // full name: "NVIDIA H200 SXM, 141 GB"
  std::string_view reported;  // name in the driver: "NVIDIA H200"; "": unknown
  bool is_gpu = true;
  std::int64_t memory_bytes = 0;       // 0: the memory of this machine
  std::int64_t reserve_bytes = 0;      // part of memory_bytes without tensors
  double peak_float8_flops_per_s = 0;  // 0: no float8 products
  double peak_16bit_flops_per_s = 0;
  double peak_fp32_flops_per_s = 0;
  double peak_memory_bytes_per_s = 0;
  int multiprocessors = 0;                // for the tiles of a product; 0: all shapes have one rate
  double matmul_fraction = 1;             // of the peak, with full tiles
  double float8_fraction = 1;             // of the peak, with a scale per matrix or row
  double float8_blocks_fraction = 0;      // of the peak, with scales of 128 elements; 0: none
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
  double contention = 0;         // share of a hidden collective's time that compute loses
  double host_bytes_per_s = 0;   // between device memory and host memory, each way
};

// Multiplies a rate by a measured factor: "matmul", "attention", "memory", "links", "network",
// "exchange" or "contention". Returns false for another name.
bool scale_rate(DeviceModel& device, std::string_view what, double factor);

// Returns the devices in the order of the table, then "cpu".
std::span<const DeviceModel> device_models();
// Returns a device by its name or its name in the driver, or nullptr.
const DeviceModel* find_device_model(std::string_view name);
// Returns the device for the decisions of passes: an H200 for every GPU, so that all ranks decide
// alike.
const DeviceModel& device_model_for(TargetDevice device);

}  // namespace rondo::ir
