// That ranks which should hold the same bits of the state do: replicas (DDP, HSDP) their shards, and all
// ranks, or those of a pipeline's stage, what each of them has whole. Nothing in a step would notice that
// they have drifted apart, by a memory or a GPU that fails, or by a node that was given other weights.
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

// What differs, as one sentence that names the ranks and the first tensor; nullopt: nothing. All ranks call
// it and get one answer. `parts` are the same ones in the same order on all ranks of a pipeline's stage.
// Reads what has copies once: of fp32 weights and AdamW 12 bytes a parameter of the shard. 512 bytes a tensor
// come to the host, and ranks exchange two numbers; hashes of single tensors only where something differs.
std::optional<std::string> find_drift(const std::vector<StatePart>& parts, const Mesh& mesh,
                                      ProcessGroups& groups);

// The ranks that find_drift names, of one set of ranks that should agree.
struct OddRanks {
  std::int64_t usual = 0;         // the first with the most frequent hash
  std::vector<std::int64_t> odd;  // those with another one, at least one
  bool tie = false;               // which of them are right cannot be told
};
// `hashes`: of all ranks. Those that differ in `axes` alone should agree. nullopt: they do.
std::optional<OddRanks> first_odd_ranks(const std::vector<std::int64_t>& hashes, const Mesh& mesh, Axes axes);

}  // namespace rondo
