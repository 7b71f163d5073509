// Finds ranks whose state has drifted apart although they should hold the same bits: shards of
// replicas (DDP, HSDP), and what all ranks, or all ranks of a stage, hold whole. A memory or a GPU
// that fails causes it, or a node with other weights, and no number of a step shows it.
//
// Note [Bit sums]: the bits of a tensor are read as 64-bit words, and every 64th word is added, modulo 2^64:
// 64 sums a tensor. Integer sums are exact in any order, so every device gives the same ones, where the
// tensor lies, in one pass and without a copy of it. A single flipped bit always changes them. Two swapped
// words of one sum would not; that is no way in which replicas drift.
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

// i64 [64] on the device of `tensor`, which is contiguous, of any dtype and size.
at::Tensor bit_sums(const at::Tensor& tensor);

// Returns one sentence that names the ranks and the first tensor, or nullopt where nothing differs.
// Collective; all ranks get one answer. `parts` are the same in the same order on all ranks of a
// stage. Reads what has copies once: 12 bytes per parameter of the shard with fp32 weights and
// AdamW. 512 bytes per tensor are copied to the host, and ranks exchange two numbers; they exchange
// hashes of single tensors only where something differs.
std::optional<std::string> find_drift(const std::vector<StatePart>& parts, const Mesh& mesh,
                                      ProcessGroups& groups);

// The ranks that find_drift names, among ranks that should agree.
struct OddRanks {
  std::int64_t usual = 0;         // the first rank with the most frequent hash
  std::vector<std::int64_t> odd;  // ranks with another hash, at least one
  bool tie = false;               // as many ranks have either hash
};
// `hashes` has one hash per rank. Ranks that differ in `axes` only should agree. Returns nullopt
// where they do.
std::optional<OddRanks> first_odd_ranks(const std::vector<std::int64_t>& hashes, const Mesh& mesh, Axes axes);

}  // namespace rondo
