// Applies AdamW, Adam or Muon within a step, with clip and finite check folded in. AdamW and Adam
// are one op over the shards of a group (ops/adamw/). Muon is one op that updates their momentums
// (ops/muon/), an exchange that makes whole matrices of them (parallel/matrix_pieces.h),
// Newton-Schulz iterations, the exchange back, and one op that updates the shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/adamw/adamw.h"
#include "ops/muon/muon.h"
#include "parallel/matrix_pieces.h"

namespace rondo {

// The tensors that an update overwrites.
struct OptimizerState {
  std::vector<at::Tensor> parameters;  // the shards
  // By parameter, like the shards. Moments of AdamW and Adam, or momentums of Muon; not read where
  // the other optimizer updates the parameter.
  std::vector<at::Tensor> exp_avgs, exp_avg_sqs, momentums = {};
  at::Tensor step;  // fp32 [], updates done so far
};

// The settings of Muon.
struct MuonUpdate {
  MuonOptions options = {};
  std::int64_t ns_steps = 5;          // iterations
  bool matches_adamw = true;          // scale_of_muon
  at::ScalarType dtype = at::kFloat;  // of exchanges and iterations
  bool operator==(const MuonUpdate&) const = default;
};
// Returns the factor of the learning rate for a matrix: 0.2 sqrt(max(rows, columns)), with which
// updates are as large as AdamW's (Liu et al., "Muon is Scalable for LLM Training", 2025), or
// sqrt(max(1, rows / columns)), the original one.
double scale_of_muon(const MuonUpdate& update, std::int64_t rows, std::int64_t columns);

// The optimizer settings of a parameter.
struct ParameterUpdate {
  AdamWOptions options;
  double lr_factor = 1;
  std::optional<MuonUpdate> muon = {};  // in place of `options`, except for its weight decay
  bool operator==(const ParameterUpdate&) const = default;
};
// The parameters with equal settings; with an early step, those of one bucket. With Muon, some of
// the parameters whose matrices have equal pieces: few enough that a rank has about
// kMuonGroupBytes of whole matrices at a time, but at least one parameter.
struct UpdateGroup {
  ParameterUpdate update;
  std::vector<std::size_t> parameters;      // indices, ascending
  std::vector<std::int64_t> rounding = {};  // as adamw takes it (ops/adamw/adamw.h)
  std::string bucket = {};                  // empty without an early step
  MatrixPieces pieces = {};                 // with Muon
  double scale = 1;                         // with Muon: scale_of_muon

  // Returns whether a parameter with the settings of `alone` may join the group.
  bool takes(const UpdateGroup& alone) const;
};
inline constexpr std::int64_t kMuonGroupBytes = std::int64_t{256} << 20;

// Updates the state once. Each parameter belongs to one group. `gradients` have the shapes of the
// parameters and are divided by `gradient_scale` (fp32 []) when they are read. If `found_inf` (fp32
// []) is 1, no bit of the state changes. `learning_rate` is fp32 [].
//
// Note [The optimizer in a trace]: LibTorch does not functionalize custom in-place ops. So a trace
// calls the functional form here and replaces the overwritten tensors by its results; the reinplace
// pass restores the in-place form. The bits are equal: the functional op is a clone followed by the
// in-place op.
void optimizer_update(const OptimizerState& state, const std::vector<at::Tensor>& gradients,
                      const at::Tensor& learning_rate, const at::Tensor& gradient_scale,
                      const at::Tensor& found_inf, const std::vector<UpdateGroup>& groups);

}  // namespace rondo
