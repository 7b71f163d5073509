// Orthogonalizes matrices by Newton-Schulz iterations (Jordan et al., "Muon", 2024), as
// torch.optim.Muon does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rondo {

// Returns for each of the matrices [N, rows, columns] U S' V^T, of its singular value decomposition
// U S V^T. With 5 steps S' is between 0.68 and 1.21 for singular values above 0.2 % of the largest
// possible one, the matrix's Frobenius norm. Zeros remain zeros. All is in the dtype of the
// matrices, as in
//
//   X = matrix / max(|matrix|, 1e-7)                       (transposed if rows > columns)
//   A = X X^T;  X = 3.4445 X + (-4.7750 A + 2.0315 A A) X  (`steps` times)
at::Tensor orthogonalized(const at::Tensor& matrices, std::int64_t steps);

}  // namespace rondo
