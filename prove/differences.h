// Compares two runs of the same steps: what they report, and their checkpoints tensor by tensor,
// written by any ranks.
//
// Gradients of the first step are derived from the optimizer's first moments after it, which are (1
// - beta1) * gradient / clip (optimizer/exp_avg.*; Muon's: optimizer/momentum.*). So they are the
// gradients of the update: summed over ranks and microbatches.
//
// A relative difference is the largest difference of any element over the largest element of the
// tensor. For a tensor that is nearly zero, the denominator is a hundredth of the largest element
// of all tensors of its kind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rondo {

struct Bounds {
  double gradients = 1e-12;  // also of loss and norm of the first step
  double state = 1e-10;      // of parameters, optimizer state, and loss and norm of later steps
};

struct Differences {
  double loss = 0, grad_norm = 0, gradients = 0, parameters = 0, state = 0;
  std::size_t tensors = 0;  // number of compared tensors
  // Differences beyond their bounds, one line each. Of the first step: loss, the first gradient in
  // the order of the backward, norm and routing. Only if these are within bounds: the first
  // differences of later steps.
  std::vector<std::string> findings = {};
};

// Facts for the comparison: the order of tensors, and possible causes of differences.
struct Compared {
  std::vector<std::string> parameters;  // in the order of the forward
  double beta1 = 0.9, max_norm = 1;
  std::vector<std::pair<std::string, std::int64_t>>
      axes;  // e.g. {"tp", 2}; only axes with more than one rank
  double muon_momentum = 0.95;
};

// Compares the run folder `other` with `one`. Throws Error(checkpoint or data) when either cannot
// be read.
Differences differences(const std::filesystem::path& one, const std::filesystem::path& other,
                        const Compared& compared, const Bounds& bounds = {});

// Describes a tensor that differs: "every element is 2 times what it should be: ...".
std::string describe_difference(std::span<const double> expected, std::span<const double> actual,
                                double bound, const Compared& compared);

}  // namespace rondo
