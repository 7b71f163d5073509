// Devices that a plan can be made for: what their makers publish, and what programs reach of it. Plain data.
//
// Makers' figures, for one GPU (bf16 dense, without sparsity; links and network each way), but for memory:
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
// From NVIDIA's data sheets: A100 Tensor Core GPU (SXM, 2022), H100 Tensor Core GPU (SXM5 and PCIe), H200
// Tensor Core GPU, HGX B200 and GB200 NVL72 (2025), GB300 NVL72 (2025); multiprocessors from the white papers
// of the architectures; network from the DGX user guides of the systems, one card a GPU. Memory is what CUDA
// says a program can see (totalGlobalMem), the least that logs of PyTorch show of each: an "80 GB" H100 has
// 79.1 GiB, which is 85 GB. h100-96gb is the part of torchtitan's published runs, "H100 with 96 GB HBM2e,
// 2.4 TB/s, 500 W" (its docs/benchmarks). In servers of PCIe cards the GPUs talk over PCIe; bridges that join
// two of them are not modelled.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/options.h"

namespace rondo::ir {

struct Link {
  double bytes_per_s = 0;  // through each rank, as large messages reach it
  double hop_s = 0;        // from one rank to the next, however little is sent
};

struct DeviceModel {
  std::string_view name;      // "h200"
  std::string_view what;      // for the reader: "NVIDIA H200 SXM, 141 GB"
  std::string_view reported;  // as the driver calls it: "NVIDIA H200"; "" where that is not known
  bool is_gpu = true;
  std::int64_t memory_bytes = 0;       // 0: of the machine that asks
  std::int64_t reserve_bytes = 0;      // of these, what tensors cannot have
  double peak_float8_flops_per_s = 0;  // 0: no products of float8
  double peak_16bit_flops_per_s = 0;
  double peak_fp32_flops_per_s = 0;
  double peak_memory_bytes_per_s = 0;
  int multiprocessors = 0;            // that share the tiles of a product; 0: products of any shape are alike
  double matmul_fraction = 1;         // of the peak, in tiles that are full
  double float8_fraction = 1;         // of that, with a scale a matrix or a row
  double float8_blocks_fraction = 0;  // with scales of 128 elements; 0: there are no such products
  double attention_forward_fraction = 1;  // of the peak, with a long sequence
  double attention_backward_fraction = 1;
  double any_positions_fraction = 0.01;  // of attention to keys at any positions; an assumption
  double attention_forward_half = 0;     // the sequence, in tokens, at which half of that is reached
  double attention_backward_half = 0;
  double memory_fraction = 1;
  double launch_s = 0;     // the least that an op takes on the device
  int ranks_per_node = 8;  // that share the fast links
  Link within_node;
  Link between_nodes;            // of all ranks of a node together
  double exchange_fraction = 1;  // of the links' rate, where the host waits for the sizes of an exchange
  double contention = 0;         // of a collective's time, what compute beside it loses
  double host_bytes_per_s = 0;   // between the device's memory and the host's, each way
};

// What may be scaled where a machine was measured, as a factor on the numbers above: "matmul", "attention",
// "memory", "links", "network", "exchange", and "contention". False for another name.
bool scale_rate(DeviceModel& device, std::string_view what, double factor);

// In the order of the table, then "cpu".
std::span<const DeviceModel> device_models();
// By its name, or as the driver calls it. nullptr: unknown.
const DeviceModel* find_device_model(std::string_view name);
// What passes decide by, so that all ranks decide alike: an H200 for every GPU.
const DeviceModel& device_model_for(TargetDevice device);

}  // namespace rondo::ir
