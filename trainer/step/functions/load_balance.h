// Balances the load of experts without an auxiliary loss (models/parts/decoder.h: ExpertBias).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace rondo {

struct Balanced {
  at::Tensor load_imbalance;  // the fullest expert of a layer over the mean, fp32 []
  std::vector<at::Tensor> expert_biases;
};

// Returns the biases after a step in which `tokens_LE` tokens of all ranks went to the experts (one
// row per router, fp32 whole numbers). An expert above the mean load loses `coeff`, one below it
// gains `coeff`. The mean change of a layer is then subtracted, so that biases do not drift.
// Nothing changes if `found_inf` (fp32 []) is 1. `rows`: the row of each bias.
Balanced balance_load(const std::vector<at::Tensor>& expert_biases, const std::vector<std::int64_t>& rows,
                      const at::Tensor& tokens_LE, double coeff, const at::Tensor& found_inf);

}  // namespace rondo
