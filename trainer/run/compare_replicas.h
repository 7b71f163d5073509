// Finds ranks whose state has drifted apart although they should hold the same bits: shards of
// replicas (DDP, HSDP), and tensors that all ranks, or all ranks of a stage, hold whole. The causes
// are failing memory, a failing GPU, or a node with other weights. No number of a step shows it.
//
// Note [Bit sums]: the bits of a tensor are read as 64-bit words, and every 64th word is added,
// modulo 2^64: 64 sums per tensor. Integer sums are exact in any order. So every device computes
// the same sums, in one pass and without a copy of the tensor. A single flipped bit always changes
// them. Two swapped words of one sum do not, but replicas do not drift in that way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/groups/groups.h"
#include "parallel/mesh.h"
#include "trainer/step/train_state.h"

namespace rondo {

// Returns i64 [64] on the device of `tensor`. REQUIRES: `tensor` is contiguous; any dtype and size.
at::Tensor bit_sums(const at::Tensor& tensor);

// Returns a sentence that names the ranks and the first tensor, or nullopt if nothing differs.
// Collective; all ranks get the same result. `parts` are the same in the same order on all ranks of
// a stage. Reads replicated tensors once: 12 bytes per parameter of the shard with fp32 weights and
// AdamW. Copies 512 bytes per tensor to the host. Ranks exchange two numbers, and hashes of single
// tensors only after a difference.
std::optional<std::string> find_drift(const std::vector<StatePart>& parts, const Mesh& mesh,
                                      ProcessGroups& groups);

// The ranks that find_drift names, among ranks that should agree.
struct OddRanks {
  std::int64_t usual = 0;         // the first rank with the most frequent hash
  std::vector<std::int64_t> odd;  // ranks with another hash, at least one
  bool tie = false;               // several hashes are equally frequent
};
// Returns the first ranks that disagree, or nullopt. `hashes` has one hash per rank. Ranks that
// differ in `axes` only should agree.
std::optional<OddRanks> first_odd_ranks(const std::vector<std::int64_t>& hashes, const Mesh& mesh, Axes axes);

}  // namespace rondo
