// Whole matrices from flat shards (parallel/flat_shard.h), and back. An optimizer that works on
// whole matrices, such as Muon, shares them among the ranks that hold their shards. A rank receives
// the pieces of some matrices, computes with these matrices, and sends their new pieces back. So
// the ranks exchange each element twice, and no matrix is computed twice.
//
// Note [Owners]: M parameters of equal pieces go to the R ranks that hold them, k = ceil(M / R) to
// each in their order. Zeros take the places behind the last one, so that all ranks run the same
// graph. Both exchanges are all-to-alls of [R, k, stored], where dimension 0 is the rank that sends
// or receives, and stored the elements of a shard.
//
// A parameter is one matrix, or on each rank a stack of them, one for each of its experts. A stack
// has one owner: a shard of it ends anywhere inside of a matrix. Matrices that lie side by side,
// such as gates and ups, are separate matrices. Where each rank of a group stores whole matrices of
// a stack, there is no exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/flat_shard.h"
#include "parallel/mesh.h"

namespace rondo {

// The pieces of one parameter.
struct MatrixPieces {
  AxisGroup holders{};  // rank h has shard h / cuts of part h % cuts
  std::int64_t cuts = 1;
  std::int64_t matrices = 1;           // of a stack on these ranks; 1 without a stack
  std::int64_t rows = 0, columns = 0;  // of each matrix, without padding
  int cut_dim = 1;                     // 1: its rows are cut, and lie side by side; 2: its columns
  std::int64_t blocks = 1;             // matrices side by side
  std::int64_t stored = 0;
  bool is_stack = false;
  bool operator==(const MatrixPieces& other) const;

  // Returns the elements of the matrices of one parameter, without padding.
  std::int64_t elements() const { return matrices * blocks * rows * columns; }
};

// Returns the pieces of a parameter. `shard`: the shard of any rank. `holders`: the ranks that hold
// one copy of its matrices, those of a part consecutive in steps of shard.cut().parts. `blocks`
// lie along dimension `dim` of its sizes. REQUIRES: two dimensions or, for a stack, three. A stack
// is divided by rows, or by a cut along dimension 0, into stacks of different ranks.
MatrixPieces matrix_pieces(const FlatShard& shard, const AxisGroup& holders, int dim, std::int64_t blocks);

// Exchanges this rank's shards of M parameters, [stored] each and with equal pieces, for the whole
// matrices that it owns. Returns these, [N, rows, columns] with N = k * blocks * matrices.
// Collective.
at::Tensor whole_matrices(const std::vector<at::Tensor>& shards, const MatrixPieces& pieces);
// Undoes whole_matrices: returns this rank's M shards of the matrices, which other ranks own, too.
// Collective.
std::vector<at::Tensor> shards_of_matrices(const at::Tensor& matrices, std::int64_t shards,
                                           const MatrixPieces& pieces);

}  // namespace rondo
