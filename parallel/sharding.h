// The seam through which a model meets the other ranks: it reads its weights here, and says where tokens go
// to all ranks that share a layer, or to those that have its experts. On one rank all of it is the identity.
//
// Between those places a rank has tokens of its own, the rows of activations [N, D]; and a weight that is not
// cut (parallel/flat_shard.h) meets those alone, so that its gradient is a sum over ranks as it is over
// tokens.
//
// Shape suffixes: B rows of the batch, N tokens of this rank, of a row where there is a B, S of all of it, D
// model dim, T tokens, K experts a token, R rows, E experts of this rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/attention/attention.h"

namespace rondo {

// Tokens on their way through the experts.
struct Dispatched {
  at::Tensor rows_RD;  // a row for each expert of each token, by expert; those behind the last end are zero
  at::Tensor ends_E;   // int32: one past the last row of each expert that this rank has; at most R
  // fp32 []: rows that found no room and are left out. Undefined where there is always room.
  at::Tensor dropped_tokens = {};
  std::vector<at::Tensor> way_back = {};  // what `combine` needs to know
};

// A model's forward reads weights by their name inside the open module scope (support/scope.h): in scope
// "layers.0.attention.wq", `get("weight")` is the parameter "layers.0.attention.wq.weight", as much of it as
// this rank computes with and in the compute dtype.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual at::Tensor get(std::string_view leaf) const = 0;
  // x [..., in] times the transpose of the weight [out, in] of the open scope.
  virtual at::Tensor linear(const at::Tensor& x) const;
  // x [N, in] times the transposes of the weights [E, out, in] of the open scope, one for each run of rows:
  // run e ends before row ends[e] (ops/grouped_mm/grouped_mm.h).
  virtual at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& ends_E) const;
  // The same with weights [E, in, out], as they lie.
  virtual at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& ends_E) const;
  // The tensors whose gradients the weights below a module path feed, in the order of their names.
  virtual std::vector<at::Tensor> leaves(std::string_view module) const = 0;

  // Rows of the embedding, this rank's part of it, for the ids [B, T] of all ranks that share a layer; of
  // those tokens this rank's own [N, D].
  virtual at::Tensor lookup(const at::Tensor& embedding_VD, const at::Tensor& ids_BT) const;
  // Own tokens [N, D] -> those of all ranks that share this layer. They have a part of what follows each:
  // some heads, some of the hidden dims.
  virtual at::Tensor all_gather_sequence(const at::Tensor& x_ND) const { return x_ND; }
  // Of what those ranks found for all tokens, the sum; of that, own tokens.
  virtual at::Tensor reduce_scatter_sequence(const at::Tensor& partial_sums) const { return partial_sums; }

  // What keys and values are made of, of own tokens [B, N, ...] -> of all tokens of these rows [B, S, ...],
  // in the order that ForwardInputs::key_positions (models/parts/decoder.h) says. Where heads are exchanged
  // instead, `attend` does it, and this is the identity.
  virtual at::Tensor all_gather_context(const at::Tensor& x_BN) const { return x_BN; }
  // The sum over the ranks that share these rows [B, ...] of what each has found in its tokens of them.
  virtual at::Tensor sum_over_context(const at::Tensor& x_B) const { return x_B; }
  // Attention of own queries to the keys and values of all_gather_context.
  virtual at::Tensor attend(const AttentionOperands& own) const;

  // To the experts that each token has chosen (int64 ids), wherever they are. `tokens_per_expert`, fp32 [all
  // experts], counts these choices.
  virtual Dispatched dispatch(const at::Tensor& x_TD, const at::Tensor& experts_TK,
                              const at::Tensor& tokens_per_expert) const;
  // Where ranks share each expert and `combine` sums their results: x on one of them, zeros on the others, so
  // that the sum has it once.
  virtual at::Tensor on_one_sharer(const at::Tensor& x) const { return x; }
  // And back: for each token the sum of its experts' rows times their scores (fp32), added up in fp32, in the
  // rows' dtype. `rows_RD` are what became of dispatched.rows_RD.
  virtual at::Tensor combine(const at::Tensor& rows_RD, const Dispatched& dispatched,
                             const at::Tensor& scores_TK) const;
};

}  // namespace rondo
