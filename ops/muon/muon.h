// The element-wise parts of Muon (Jordan et al., 2024) on the shards of many matrices at once. The
// caller orthogonalizes whole updates between the two ops:
//
//   rondo::muon_momentum(momentums, gradients, gradient_scale, found_inf, step, rounding,
//                        momentum, nesterov, dtype) -> (momentums, updates)
//   rondo::muon_momentum_(momentums!, ...) -> updates
//   rondo::muon_apply(parameters, updates, learning_rate, found_inf, step, rounding,
//                     weight_decay, scales) -> parameters
//   rondo::muon_apply_(parameters!, ...) -> ()
//
//   g = gradient / gradient_scale
//   momentum  = momentum + (1 - MOMENTUM) (g - momentum)
//   update    = nesterov ? g + MOMENTUM (momentum - g) : momentum
//   parameter = parameter (1 - lr * weight_decay) - lr * scale * update
//
// The lists of a call have the same length. Tensors at the same index have the same shape.
// Momentums and parameters are f32, bf16 or (on the CPU) f64. Gradients and orthogonalized updates
// have their dtype, or f32 and bf16 are mixed. `dtype` is that of the updates of muon_momentum: f32
// or bf16 beside momentums in f32 and bf16, and f64 beside f64. `scales` has one factor for each
// parameter: the adjustment of the learning rate by the matrix's shape. Overwritten tensors are
// contiguous. gradient_scale, learning_rate, found_inf and step (the number of this update, from 1)
// are f32 []. All tensors are on one device. If found_inf is not 0, no bit of the momentums and
// parameters changes, and the updates of muon_momentum are zero. Gradients and updates are only
// read.
//
// Elements are computed in f32 (f64 in f64) and rounded once, in the same order of operations on
// every device (muon_math.h), so CPU and CUDA give the same bits. In f32 and f64 these are the bits
// of the CPU kernels that torch.optim.Muon calls, with AVX2 or AVX-512. The exception is elements
// at the end of a tensor that do not fill a vector there. An update is computed from the momentum
// before it is rounded.
//
// `rounding` says how momentums and parameters become bf16, as in ops/adamw/adamw.h. Draws depend
// on `step`. An update is always rounded to nearest.
//
// Throws Error(internal) for other shapes or dtypes. Has no autograd formula.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "ops/muon/muon_math.h"

namespace rondo {

struct MuonMomentumOperands {
  at::TensorList momentums, gradients;
  const at::Tensor &gradient_scale, &found_inf, &step;
  at::IntArrayRef rounding = {};
};
// Returns the updates: contiguous, like the gradients in shape.
std::vector<at::Tensor> muon_momentum_(const MuonMomentumOperands& operands, const MuonOptions& options,
                                       at::ScalarType dtype);
// Returns momentums and updates.
std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>> muon_momentum(
    const MuonMomentumOperands& operands, const MuonOptions& options, at::ScalarType dtype);

struct MuonApplyOperands {
  at::TensorList parameters, updates;
  const at::Tensor &learning_rate, &found_inf, &step;
  at::IntArrayRef rounding = {};
};
void muon_apply_(const MuonApplyOperands& operands, double weight_decay, at::ArrayRef<double> scales);
// Returns the parameters.
std::vector<at::Tensor> muon_apply(const MuonApplyOperands& operands, double weight_decay,
                                   at::ArrayRef<double> scales);

// Check the operands, for the kernels of every device and the shape rules. unset_muon_updates also
// allocates the updates, and does not set them.
std::vector<at::Tensor> unset_muon_updates(const MuonMomentumOperands& operands, at::ScalarType dtype);
void check_muon_apply(const MuonApplyOperands& operands, at::ArrayRef<double> scales);

}  // namespace rondo
