// Built of views and concatenations, so that a graph shows all copies. A part is one of the equal
// cuts of a parameter; its shards in rank order are its elements, then padding. The verifier knows
// from the types of [R, k, stored] which exchange is missing: dimension 2 is sharded before the
// first one and after the second, dimension 1 between them (compiler/ops/collectives.cpp).
//
// Shape suffixes: R ranks, K parameters of a rank, S stored elements.
#include "parallel/matrix_pieces.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <tuple>

#include "parallel/collectives.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::int64_t divided_up(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// The next four leave out ops that would copy a tensor as it is.
Tensor joined(const Tensors& tensors, std::int64_t dim) {
  return tensors.size() == 1 ? tensors[0] : at::cat(tensors, dim);
}
Tensor stacked(const Tensors& tensors) {
  return tensors.size() == 1 ? tensors[0].unsqueeze(0) : at::stack(tensors);
}
Tensor range(const Tensor& x, std::int64_t dim, std::int64_t begin, std::int64_t count) {
  return count == x.size(dim) ? x : x.slice(dim, begin, begin + count);
}
Tensor padded(const Tensor& x, std::int64_t dim, std::int64_t size) {
  if (x.size(dim) == size) return x;
  std::vector<std::int64_t> behind(static_cast<std::size_t>(2 * (x.dim() - dim)));
  behind.back() = size - x.size(dim);
  return at::constant_pad_nd(x, behind);
}

// The part of K parameters, [K, rows, columns] or of stacks [K, matrices, rows, columns], in which
// each block has `each` rows or columns.
struct Part {
  std::int64_t dim, whole, each;
  std::vector<std::int64_t> sizes, whole_sizes;

  Part(const MatrixPieces& p, std::int64_t parameters)
      : dim(p.cut_dim + (p.is_stack ? 1 : 0)),
        whole(p.cut_dim == 1 ? p.rows : p.columns),
        each(divided_up(whole, p.cuts)),
        sizes{parameters, p.rows, p.columns} {
    if (p.is_stack) sizes.insert(sizes.begin() + 1, p.blocks * p.matrices);
    whole_sizes = sizes;
    if (p.is_stack) sizes[1] = p.matrices;
    sizes[static_cast<std::size_t>(dim)] = p.blocks * each;
  }
  std::int64_t elements() const { return element_count(sizes) / sizes[0]; }
};

}  // namespace

bool MatrixPieces::operator==(const MatrixPieces& other) const {
  const auto members = [](const MatrixPieces& p) {
    return std::tie(p.holders.name, p.holders.ranks, p.cuts, p.matrices, p.rows, p.columns, p.cut_dim,
                    p.blocks, p.stored, p.is_stack);
  };
  return members(*this) == members(other);
}

MatrixPieces matrix_pieces(const FlatShard& shard, const AxisGroup& holders, int dim, std::int64_t blocks) {
  Sizes sizes = shard.sizes();
  const bool is_stack = sizes.size() == 3;
  RONDO_ASSERT(is_stack || (sizes.size() == 2 && blocks == 1),
               "a parameter with matrices is one of them, or a stack");
  MatrixPieces p{.holders = holders, .blocks = blocks, .stored = shard.stored(), .is_stack = is_stack};
  if (is_stack) p.matrices = sizes[0] / shard.rows().parts / (shard.cut().dim == 0 ? shard.cut().parts : 1);
  const bool cuts_matrices = shard.cut().dim > 0 || !is_stack;
  if (cuts_matrices) p.cuts = shard.cut().parts;
  p.cut_dim = is_stack ? std::max(dim, 1) : dim + 1;
  p.rows = sizes[sizes.size() - 2], p.columns = sizes[sizes.size() - 1];
  (p.cut_dim == 1 ? p.rows : p.columns) /= blocks;
  if (p.cuts == 1 && blocks == 1) p.cut_dim = 1;         // no matter: equal sizes have equal pieces
  if (p.cuts == 1 && p.matrices % holders.ranks == 0) {  // each rank stores whole matrices
    p.matrices /= holders.ranks;
    p.holders = {};
  }
  return p;
}

Tensor whole_matrices(const Tensors& shards, const MatrixPieces& p) {
  const std::int64_t ranks = p.holders.ranks, of_rank = divided_up(std::ssize(shards), ranks);
  Tensors list = shards;
  if (std::ssize(shards) < ranks * of_rank)
    list.resize(static_cast<std::size_t>(ranks * of_rank), shards[0].new_zeros({p.stored}));
  const Tensor rows = stacked(list);
  // From a view to [ranks, 1, stored] the types of sharding could not tell which dimension is
  // divided.
  const Tensor pieces_RKS = of_rank == 1 ? rows.unsqueeze(1) : rows.view({ranks, of_rank, p.stored});
  const Tensors of_holder = all_to_all(pieces_RKS, p.holders).unbind(0);
  const Part part(p, of_rank);
  Tensors parts;
  for (std::int64_t cut = 0; cut < p.cuts; ++cut) {
    Tensors pieces;
    for (std::int64_t holder = cut; holder < ranks; holder += p.cuts)
      pieces.push_back(of_holder[static_cast<std::size_t>(holder)]);
    parts.push_back(range(joined(pieces, 1), 1, 0, part.elements()).reshape(part.sizes));
  }
  Tensors blocks;
  for (std::int64_t block = 0; block < p.blocks; ++block) {
    Tensors cuts;
    for (const Tensor& own : parts) cuts.push_back(range(own, part.dim, block * part.each, part.each));
    blocks.push_back(range(joined(cuts, part.dim), part.dim, 0, part.whole));
  }
  return joined(blocks, 1).reshape({of_rank * p.blocks * p.matrices, p.rows, p.columns});
}

Tensors shards_of_matrices(const Tensor& matrices, std::int64_t shards, const MatrixPieces& p) {
  const std::int64_t ranks = p.holders.ranks, of_rank = divided_up(shards, ranks);
  const Part part(p, of_rank);
  const Tensor all = matrices.reshape(part.whole_sizes);
  Tensors parts;
  for (std::int64_t cut = 0; cut < p.cuts; ++cut) {
    Tensors blocks;
    for (std::int64_t block = 0; block < p.blocks; ++block) {
      const Tensor own = p.blocks == 1 ? all : range(all, 1, block * p.matrices, p.matrices);
      blocks.push_back(
          range(padded(own, part.dim, p.cuts * part.each), part.dim, cut * part.each, part.each));
    }
    parts.push_back(
        padded(joined(blocks, part.dim).reshape({of_rank, part.elements()}), 1, ranks / p.cuts * p.stored));
  }
  Tensors list;
  for (std::int64_t holder = 0; holder < ranks; ++holder)
    list.push_back(
        range(parts[static_cast<std::size_t>(holder % p.cuts)], 1, holder / p.cuts * p.stored, p.stored));
  const Tensor pieces_RKS = all_to_all(stacked(list), p.holders);
  Tensors results;
  for (const Tensor& of_owner_KS : pieces_RKS.unbind(0)) {
    // Ranks with other experts have other rows, of which none can be selected for all.
    const Tensors rows = p.is_stack ? of_owner_KS.split(1, 0) : of_owner_KS.unbind(0);
    for (const Tensor& row : rows)
      if (std::ssize(results) < shards) results.push_back(p.is_stack ? row.view({p.stored}) : row);
  }
  return results;
}

}  // namespace rondo
