// Outside of attention, a rank's part of a row is treated as a row. An exchange turns a matrix with
// rows divided among the ranks into one with columns divided. A piece of heads is every n-th group
// of queries with its keys, not consecutive groups. Tensor parallelism divides the outermost
// dimension of the heads, so both can divide them. The results from the ranks are unbound and
// concatenated along another dimension, not viewed and transposed. The types of sharding can then
// tell rows from ranks, with one row or many.
#include "parallel/context_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/kernel/with_dtype.h"
#include "parallel/collectives.h"
#include "parallel/saved_group.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

// [n, P, Q]: sends piece r to rank r. Piece s of the result is from rank s. Its own backward.
struct Exchange : torch::autograd::Function<Exchange> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const AxisGroup& group) {
    at::AutoDispatchBelowAutograd below_autograd;
    save_group(context, group);
    return all_to_all(x.contiguous(), group);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {all_to_all(gradients[0].contiguous(), saved_group(context)), {}};
  }
};

// [n, Q], the same on every rank -> [Q]: row r on rank r. It is the sum of equal rows over their
// number, so that no graph depends on its rank. Backward: the first rank gets the gradients of all
// rows, and the others zeros.
struct RowOfRank : torch::autograd::Function<RowOfRank> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const AxisGroup& group) {
    at::AutoDispatchBelowAutograd below_autograd;
    save_group(context, group);
    return (reduce_scatter_sum(x.contiguous(), group) / group.ranks).view({-1});
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const AxisGroup group = saved_group(context);
    std::vector<Tensor> pieces(static_cast<std::size_t>(group.ranks), at::zeros_like(gradients[0]));
    pieces[0] = gradients[0];
    return {at::sum(all_to_all(at::stack(pieces).unsqueeze(2), group), at::IntArrayRef{2}), {}};
  }
};

// Heads in groups of queries with the same keys: `groups` on this rank, `each` elements in a group.
struct Heads {
  std::int64_t groups, each;
};

// This rank's tokens of all groups [B, N, groups * each] -> all tokens of this rank's groups
// [B, S, groups / n * each].
Tensor exchange_for_heads(const Tensor& x_BNQ, const Heads& heads, const AxisGroup& group) {
  const std::int64_t rows = x_BNQ.size(0), own = x_BNQ.size(1), n = group.ranks, groups = heads.groups / n;
  const Tensor pieces = x_BNQ.view({rows, own, groups, n, heads.each}).permute({3, 0, 1, 2, 4});
  const Tensor exchanged = Exchange::apply(pieces.reshape({n, rows * own, groups * heads.each}), group);
  std::vector<Tensor> by_rank;
  for (const Tensor& piece : exchanged.unbind(0))
    by_rank.push_back(piece.view({rows, own, groups * heads.each}));
  return at::cat(by_rank, 1);
}

// The inverse of exchange_for_heads.
Tensor exchange_for_tokens(const Tensor& x_BSQ, const Heads& heads, const AxisGroup& group) {
  const std::int64_t rows = x_BSQ.size(0), n = group.ranks, own = x_BSQ.size(1) / n,
                     groups = heads.groups / n;
  std::vector<Tensor> pieces;
  for (const Tensor& piece : x_BSQ.split(own, 1))
    pieces.push_back(piece.reshape({rows * own, groups * heads.each}));
  const Tensor exchanged = Exchange::apply(at::stack(pieces), group);
  return exchanged.view({n, rows, own, groups, heads.each})
      .permute({1, 2, 3, 0, 4})
      .reshape({rows, own, heads.groups * heads.each});
}

// [B, G, N, K] -> [B, G * times, N, K]: each head `times` times in a row.
Tensor repeated(const Tensor& x_BGNK, std::int64_t times) {
  if (times == 1) return x_BGNK;
  const auto s = x_BGNK.sizes();
  return x_BGNK.unsqueeze(2)
      .expand({s[0], s[1], times, s[2], s[3]})
      .reshape({s[0], s[1] * times, s[2], s[3]});
}

// [B, N, ...] of each rank r, which is parts r and 2n - 1 - r of 2n, -> [B, S, ...].
Tensor heads_then_tails(const std::vector<Tensor>& by_rank) {
  const std::size_t n = by_rank.size();
  std::vector<Tensor> parts(2 * n);
  for (std::size_t r = 0; r < n; ++r) {
    const std::vector<Tensor> both = by_rank[r].split(by_rank[r].size(1) / 2, 1);
    parts[r] = both[0];
    parts[2 * n - 1 - r] = both[1];
  }
  return at::cat(parts, 1);
}

class SharedRows : public ContextParallel {
 public:
  explicit SharedRows(ContextParallelOptions options) : options_(std::move(options)) {}

  // Gathers, sums and reduce-scatters, so that the result has x's type of sharding. The
  // reduce-scatter adds n equal sums, so the result is divided by n.
  Tensor all_reduce_sum(const Tensor& x_B) const override {
    const AxisGroup& group = options_.group;
    const Tensor sum =
        at::sum(at::stack(all_gather_autograd(x_B, group).split(x_B.size(0))), at::IntArrayRef{0});
    const std::vector<Tensor> for_each(static_cast<std::size_t>(group.ranks), sum);
    return reduce_scatter_autograd(at::cat(for_each), group) / group.ranks;
  }

 protected:
  ContextParallelOptions options_;
};

class GatheredKeys final : public SharedRows {
 public:
  using SharedRows::SharedRows;

  Tensor all_gather(const Tensor& x_BN) const override {
    const std::int64_t rows = x_BN.size(0);
    const Tensor by_rank = all_gather_autograd(x_BN, options_.group);  // [n * B, N, ...]
    if (options_.runs == 2) return heads_then_tails(by_rank.split(rows));
    if (rows > 1) return at::cat(by_rank.split(rows), 1);
    std::vector<std::int64_t> sizes = x_BN.sizes().vec();
    sizes[1] *= options_.group.ranks;
    return by_rank.view(sizes);
  }
  Tensor attention(const AttentionOperands& operands) const override {
    AttentionOperands of_runs = operands;
    of_runs.query_runs = options_.runs;
    return rondo::attention(of_runs);
  }
};

class ExchangedHeads final : public SharedRows {
 public:
  using SharedRows::SharedRows;

  Tensor attention(const AttentionOperands& own) const override {
    const AxisGroup& group = options_.group;
    const std::int64_t kv_heads = own.k.size(1), times = kv_heads < group.ranks ? group.ranks / kv_heads : 1;
    const Tensor k = repeated(own.k, times), v = repeated(own.v, times);
    const std::int64_t groups = k.size(1), heads_of_one = own.q.size(1) / groups;
    RONDO_ASSERT(groups % group.ranks == 0, "every rank has some heads of keys");
    const auto heads = [&](std::int64_t each) { return Heads{groups, each}; };
    const auto to_heads = [&](const Tensor& x_BHNK, std::int64_t of_group) {
      const Tensor x_BNHK = x_BHNK.transpose(1, 2);
      const std::int64_t width = x_BNHK.size(3);
      const Tensor exchanged = exchange_for_heads(x_BNHK.reshape({x_BNHK.size(0), x_BNHK.size(1), -1}),
                                                  heads(of_group * width), group);
      return exchanged.view({exchanged.size(0), exchanged.size(1), -1, width}).transpose(1, 2);
    };
    AttentionOperands whole = own;
    whole.q = to_heads(own.q, heads_of_one);
    whole.k = to_heads(k, 1);
    whole.v = to_heads(v, 1);
    if (own.sinks) {
      const Tensor wide = own.sinks->to(sum_dtype(*own.sinks)).view({-1, group.ranks, heads_of_one});
      whole.sinks =
          RowOfRank::apply(wide.transpose(0, 1).reshape({group.ranks, -1}), group).to(own.q.scalar_type());
    }
    const Tensor out_BSHV = rondo::attention(whole).transpose(1, 2);
    const std::int64_t width = out_BSHV.size(3);
    const Tensor out = exchange_for_tokens(out_BSHV.reshape({out_BSHV.size(0), out_BSHV.size(1), -1}),
                                           heads(heads_of_one * width), group);
    return out.view({out.size(0), out.size(1), -1, width}).transpose(1, 2);
  }
};

}  // namespace

Tensor ContextParallel::attention(const AttentionOperands& operands) const {
  return rondo::attention(operands);
}

std::shared_ptr<const ContextParallel> context_parallel(const ContextParallelOptions& options) {
  if (options.group.ranks == 1) return std::make_shared<ContextParallel>();
  if (options.exchange == ContextExchange::all_gather) return std::make_shared<GatheredKeys>(options);
  return std::make_shared<ExchangedHeads>(options);
}

}  // namespace rondo
