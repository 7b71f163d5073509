// How far two runs of the same steps are apart: what they report, and their checkpoints tensor by tensor,
// whoever wrote which part of them.
//
// Gradients are those of the first step, from the optimizer's first moments after it, which are
// (1 - beta1) * gradient / clip (optimizer/exp_avg.*). So they are gradients as the update takes them: summed
// over ranks and microbatches.
//
// A relative difference is the largest of any element over the largest element of the tensor; of a tensor
// that is nearly zero, over a hundredth of the largest element of all tensors of its kind.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rondo {

struct Bounds {
  double gradients = 1e-12;  // of loss and norm of the first step, too
  double state = 1e-10;      // of parameters, optimizer state, and loss and norm of later steps
};

struct Differences {
  double loss = 0, grad_norm = 0, gradients = 0, parameters = 0, state = 0;
  std::size_t tensors = 0;  // that were compared
  // What is beyond its bound, a line each: of the first step loss, the first gradient in the order of the
  // backward, norm and routing; where these are right, the first of what follows.
  std::vector<std::string> findings = {};
};

// What tells which tensor comes first, and what its differences may come from.
struct Compared {
  std::vector<std::string> parameters;  // in the order of the forward
  double beta1 = 0.9, max_norm = 1;
  std::vector<std::pair<std::string, std::int64_t>> axes;  // "tp", 2: with more than one rank
};

// Of the run folder `other` from `one`. Throws Error(checkpoint or data) where either cannot be read.
Differences differences(const std::filesystem::path& one, const std::filesystem::path& other,
                        const Compared& compared, const Bounds& bounds = {});

// What a tensor that differs looks like: "every element is 2 times what it should be: ...".
std::string describe_difference(std::span<const double> right, std::span<const double> found, double bound,
                                const Compared& compared);

}  // namespace rondo
