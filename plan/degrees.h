// Ways with other degrees and batches that keep the sequences of a step. Pure functions without
// LibTorch. They return nullopt for a way that breaks a rule of the configuration or of the layout.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/plan/devices/devices.h"
#include "plan/variants.h"

namespace rondo {

struct SearchedJob {
  Variant job;
  std::int64_t sequences = 1;  // of a step, over all ranks
  const ir::DeviceModel* device = nullptr;
};

struct DenseDegrees {
  std::int64_t pipeline, tensor, context;
};
DenseDegrees degrees_of(const Variant& way);

// Returns whether the way keeps the rules of the configuration and has a layout.
bool is_valid(const Variant& way, const SearchedJob& searched);

// Sequences of a rank at a time.
std::int64_t microbatch(const Variant& way);
// Divides the sequences of a step into microbatches of at most `size` sequences.
std::optional<Variant> with_microbatch(Variant way, std::int64_t size, const SearchedJob& searched);
// Returns `way` with the sequences of `searched`.
std::optional<Variant> with_sequences(const Variant& way, const SearchedJob& searched);

std::optional<Variant> with_degrees(Variant way, DenseDegrees degrees, const SearchedJob& searched);
std::optional<Variant> with_world(Variant way, std::int64_t world, const SearchedJob& searched);

// Returns `way` with the settings that take least memory: full recomputation, one sequence at a
// time, and the loss in chunks.
Variant leanest(Variant way, const SearchedJob& searched);

// Keeps parameters and moments in the host's memory, and removes pipelines and overlapped
// microbatches. Also returns nullopt for a GPU that shares the host's memory.
std::optional<Variant> with_state_on_host(Variant way, const SearchedJob& searched);

// Returns ways whose steps have half and twice as many sequences: in microbatches of half and of
// twice the size, and in half and twice as many. Returns nothing if training.global_batch_size is
// set.
std::vector<Variant> other_batches(const Variant& way, const SearchedJob& searched);

}  // namespace rondo
