// A stable sort orders slots by expert. Its inverse gives the position of each slot, so both
// directions gather. In the fixed-size exchange, slots of other ranks' experts get a key after all
// of this rank's. The sort puts them last, where the capacity or the count cuts them off. Both
// directions are autograd functions. One sums over slots and ranks in its forward, the other in its
// backward.
//
// In the exact exchange, every rank learns how many rows each rank has for each expert. So all
// ranks agree on the rows without capacity: those of the last experts, and for one expert those of
// the last ranks. The rows that a rank sends to another are then a prefix of its rows for it.
#include "parallel/expert_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "ops/all_to_all_tokens/all_to_all_tokens.h"
#include "ops/local_ids/local_ids.h"
#include "ops/permute_tokens/permute_tokens.h"
#include "ops/sort_slots/sort_slots.h"
#include "parallel/collectives.h"
#include "parallel/saved_group.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor gather(const Tensor& x, const AxisGroup& group) {
  return group.ranks > 1 ? all_gather(x.contiguous(), group) : x;
}
// Autograd saves no undefined tensors, so an absent count is left out.
variable_list with_count(variable_list saved, const MaybeTensor& count) {
  if (count) saved.push_back(*count);
  return saved;
}
MaybeTensor count_in(const variable_list& saved, std::size_t others) {
  return saved.size() > others ? MaybeTensor(saved[others]) : std::nullopt;
}

// The ranks that exchange rows, and how they add them up.
struct RowExchange {
  AxisGroup group;
  ExpertCombine combine;
};
void save_exchange(AutogradContext* context, const RowExchange& exchange) {
  save_group(context, exchange.group);
  context->saved_data["combine"] = static_cast<std::int64_t>(exchange.combine);
}
RowExchange saved_exchange(AutogradContext* context) {
  return {saved_group(context), static_cast<ExpertCombine>(context->saved_data["combine"].toInt())};
}

// Returns the sums over slots and then over ranks of this rank's tokens, in the dtype of the rows.
Tensor sum_slots(const Tensor& rows_RD, const Tensor& place_PK, const MaybeTensor& count,
                 const MaybeTensor& scores_PK, const RowExchange& exchange) {
  const AxisGroup& group = exchange.group;
  const bool sends_terms = group.ranks > 1 && exchange.combine == ExpertCombine::all_to_all;
  const Tensor sums_PD = unpermute_tokens(rows_RD, place_PK, count, scores_PK, /*narrow=*/sends_terms);
  if (sends_terms) return sum_pieces(all_to_all(sums_PD, group), group.ranks, group.name);
  return reduce_scatter_sum(sums_PD, group).to(rows_RD.scalar_type());
}

// Returns the rows of the tokens of all ranks. The backward sums over slots and ranks.
struct TakeRows : torch::autograd::Function<TakeRows> {
  static Tensor forward(AutogradContext* context, const Tensor& x_TD, const Tensor& order_R,
                        const Tensor& place_PK, const MaybeTensor& count, const RowExchange& exchange) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward(with_count({place_PK}, count));
    save_exchange(context, exchange);
    return permute_tokens(gather(x_TD, exchange.group), order_R, count, place_PK.size(1));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {
        sum_slots(gradients[0], saved[0], count_in(saved, 1), {}, saved_exchange(context)), {}, {}, {}, {}};
  }
};

// Returns, for each token of this rank, the sum over all ranks of its rows times their scores.
struct SumRows : torch::autograd::Function<SumRows> {
  static Tensor forward(AutogradContext* context, const Tensor& rows_RD, const Tensor& scores_TK,
                        const Tensor& order_R, const Tensor& place_PK, const MaybeTensor& count,
                        const RowExchange& exchange) {
    at::AutoDispatchBelowAutograd below_autograd;
    const Tensor scores_PK = gather(scores_TK, exchange.group);
    context->save_for_backward(with_count({rows_RD, scores_PK, order_R, place_PK}, count));
    save_group(context, exchange.group);
    return sum_slots(rows_RD, place_PK, count, scores_PK, exchange);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &rows_RD = saved[0], &scores_PK = saved[1], &order_R = saved[2], &place_PK = saved[3];
    const MaybeTensor count = count_in(saved, 4);
    const AxisGroup group = saved_group(context);
    const Tensor gradient_PD = gather(gradients[0], group);
    const Tensor of_rows = permute_tokens(gradient_PD, order_R, count, place_PK.size(1), scores_PK);
    const Tensor of_scores = reduce_scatter_sum(dot_rows(rows_RD, gradient_PD, place_PK, count), group);
    return {of_rows, of_scores, {}, {}, {}, {}};
  }
};

// Permutes rows from the order of ranks to the order of experts, or back.
struct Reorder : torch::autograd::Function<Reorder> {
  static Tensor forward(AutogradContext* context, const Tensor& rows_RD, const Tensor& order_R,
                        const Tensor& place_R, const Tensor& count) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({place_R, count});
    return permute_tokens(rows_RD, order_R, count, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {permute_tokens(gradients[0], saved[0], saved[1], 1), {}, {}, {}};
  }
};

// The runs of rows of the experts, cut at the capacity.
struct Runs {
  Tensor ends_E, dropped_tokens;  // dropped_tokens is undefined where unbounded
};
Runs runs_within(std::int64_t capacity, const Tensor& counts_E, bool bounded) {
  const Tensor ends_E = at::cumsum(counts_E, 0, at::kInt);
  if (!bounded) return {ends_E, {}};
  return {at::clamp_max(ends_E, capacity), at::clamp_min(count_of(ends_E) - capacity, 0).to(at::kFloat)};
}

Tensor gather_ids(const Tensor& experts_TK, const AxisGroup& group) {
  return gather(experts_TK.to(at::kInt), group).to(at::kLong);
}

// The slots of the tokens of the whole expert_tp group by expert, and the place of each.
struct SortedChoices {
  SortedSlots slots;
  Tensor place_PK;
};
SortedChoices sort_choices(const Tensor& experts_TK, std::int64_t experts, const AxisGroup& expert_tp) {
  const Tensor experts_PK = expert_tp.ranks == 1 ? experts_TK : gather_ids(experts_TK, expert_tp);
  SortedSlots slots = sort_slots(experts_PK.view({-1}), experts);
  return {slots, slots.place_N.view(experts_PK.sizes())};
}

// Every expert is on this rank, whole or cut over expert_tp.
class LocalExperts : public ExpertParallel {
 public:
  explicit LocalExperts(ExpertParallelOptions options) : o_(std::move(options)) {}

  Dispatched dispatch(const Tensor& x_TD, const Tensor& experts_TK, std::int64_t experts) const override {
    const auto [sorted, place_PK] = sort_choices(experts_TK, experts, o_.expert_tp);
    const Tensor rows_RD = TakeRows::apply(x_TD, sorted.order_N, place_PK, MaybeTensor(), over_expert_tp());
    return {rows_RD, at::cumsum(sorted.counts, 0, at::kInt), {}, {sorted.order_N, place_PK}};
  }

  // Masks by the place of the only id, 1, which the first rank of expert_tp has.
  Tensor once_per_expert_tp_group(const Tensor& x) const override {
    if (o_.expert_tp.ranks == 1) return x;
    const Tensor id = x.new_ones({1}, x.options().dtype(at::kLong));
    return x.masked_fill(local_ids(id, 1 + o_.expert_tp_rank, 1, 0, o_.expert_tp.name).elsewhere, 0);
  }

  Tensor combine(const Tensor& rows_RD, const Dispatched& dispatched,
                 const Tensor& scores_TK) const override {
    const std::vector<Tensor>& state = dispatched.combine_state;
    return SumRows::apply(rows_RD, scores_TK, state[0], state[1], MaybeTensor(), over_expert_tp());
  }

 protected:
  RowExchange over_expert_tp() const { return {o_.expert_tp, o_.combine}; }
  RowExchange over_token_group() const { return {o_.token_group(), o_.combine}; }

  ExpertParallelOptions o_;
};

class FixedSizeExchange final : public LocalExperts {
 public:
  using LocalExperts::LocalExperts;

  Dispatched dispatch(const Tensor& x_TD, const Tensor& experts_TK, std::int64_t experts) const override {
    const std::int64_t each = experts / o_.group.ranks;
    const std::int64_t capacity = o_.capacity(experts_TK.size(0), experts_TK.size(1), experts);
    const Tensor ids_PK = gather_ids(experts_TK, o_.token_group());
    const Tensor keys_N = local_ids(ids_PK.view({-1}), o_.rank * each, each, each, o_.group.name).local;
    const SortedSlots sorted = sort_slots(keys_N, each + 1);  // slots of other ranks' experts last
    const Tensor order_R = sorted.order_N.narrow(0, 0, capacity);
    const Tensor place_PK = sorted.place_N.view(ids_PK.sizes());
    const Runs runs = runs_within(capacity, sorted.counts.narrow(0, 0, each), o_.is_bounded());
    const Tensor count = runs.ends_E.select(0, each - 1);
    const Tensor rows_RD = TakeRows::apply(x_TD, order_R, place_PK, MaybeTensor(count), over_token_group());
    return {rows_RD, runs.ends_E, runs.dropped_tokens, {order_R, place_PK, count}};
  }

  Tensor combine(const Tensor& rows_RD, const Dispatched& dispatched,
                 const Tensor& scores_TK) const override {
    const std::vector<Tensor>& state = dispatched.combine_state;
    return SumRows::apply(rows_RD, scores_TK, state[0], state[1], MaybeTensor(state[2]), over_token_group());
  }
};

// The rows [from, to, expert] that are within the capacity of their destination, which accepts them
// in the order of experts and then of ranks.
Tensor within(std::int64_t capacity, const Tensor& counts_FTE) {
  const std::int64_t ranks = counts_FTE.size(0), each = counts_FTE.size(2);
  const Tensor counts = counts_FTE.permute({1, 2, 0}).reshape({ranks, each * ranks});
  const Tensor ends = at::cumsum(counts, 1, at::kInt);
  const Tensor accepted = at::clamp_max(ends, capacity) - at::clamp_max(ends - counts, capacity);
  return accepted.view({ranks, each, ranks}).permute({2, 0, 1});
}

Tensor sum_over(const Tensor& counts, std::int64_t dim) { return at::sum(counts, dim, false, at::kInt); }

class ExactExchange final : public LocalExperts {
 public:
  using LocalExperts::LocalExperts;

  Dispatched dispatch(const Tensor& x_TD, const Tensor& experts_TK, std::int64_t experts) const override {
    const std::string& group = o_.group.name;
    const std::int64_t ranks = o_.group.ranks, each = experts / ranks;
    const std::int64_t capacity = o_.capacity(x_TD.size(0), experts_TK.size(1), experts);
    const auto [sorted, place_PK] = sort_choices(experts_TK, experts, o_.expert_tp);
    const Tensor offered_TE = sorted.counts.view({ranks, each});
    const Tensor offered_FTE = gather(offered_TE, o_.group).view({ranks, ranks, each});
    const Tensor sent_FTE = o_.is_bounded() ? within(capacity, offered_FTE) : offered_FTE;
    const Tensor received_FE = local_part(sent_FTE, 1, o_.rank, group);
    const Tensor ends_E = at::cumsum(sum_over(received_FE, 0), 0, at::kInt),
                 count = ends_E.select(0, each - 1);
    const Tensor offered = sum_over(offered_TE, 1);
    const Tensor sent = o_.is_bounded() ? sum_over(local_part(sent_FTE, 0, o_.rank, group), 1) : offered;
    const RowCounts by_rank{offered, sent, sum_over(received_FE, 1)};
    const RowOrder by_expert = order_by_expert(received_FE, capacity, group);

    const Tensor home_ND = TakeRows::apply(x_TD, sorted.order_N, place_PK, MaybeTensor(), over_expert_tp());
    const Tensor received_RD = all_to_all_tokens(home_ND, by_rank, /*back=*/false, capacity, group);
    const Tensor rows_RD = Reorder::apply(received_RD, by_expert.order_R, by_expert.place_R, count);
    Tensor dropped;
    if (o_.is_bounded()) {
      const Tensor for_here = at::sum(local_part(offered_FTE, 1, o_.rank, group), at::kInt);
      dropped = (for_here - count).to(at::kFloat);
    }
    return {rows_RD,
            ends_E,
            dropped,
            {sorted.order_N, place_PK, by_rank.offered, by_rank.sent, by_rank.received, by_expert.order_R,
             by_expert.place_R, count}};
  }

  Tensor combine(const Tensor& rows_RD, const Dispatched& dispatched,
                 const Tensor& scores_TK) const override {
    const std::vector<Tensor>& state = dispatched.combine_state;
    const Tensor received_RD = Reorder::apply(rows_RD, state[kPlaceR], state[kOrderR], state[kCount]);
    const Tensor home_ND = all_to_all_tokens(received_RD, {state[kOffered], state[kSent], state[kReceived]},
                                             /*back=*/true, state[kOrderN].size(0), o_.group.name);
    return SumRows::apply(home_ND, scores_TK, state[kOrderN], state[kPlacePK], MaybeTensor(),
                          over_expert_tp());
  }

 private:
  // Positions in Dispatched::combine_state.
  enum State : std::uint8_t { kOrderN, kPlacePK, kOffered, kSent, kReceived, kOrderR, kPlaceR, kCount };
};

}  // namespace

std::int64_t ExpertParallelOptions::capacity(std::int64_t tokens, std::int64_t experts_a_token,
                                             std::int64_t experts) const {
  const std::int64_t here = std::min(experts_a_token, experts / group.ranks);
  const std::int64_t expert_tp_tokens = expert_tp.ranks * tokens,
                     worst = group.ranks * expert_tp_tokens * here;
  if (!is_bounded()) return worst;
  const double bound = std::ceil(capacity_factor * static_cast<double>(expert_tp_tokens * experts_a_token));
  return bound < static_cast<double>(worst) ? static_cast<std::int64_t>(bound) : worst;
}

std::shared_ptr<const ExpertParallel> expert_parallel(const ExpertParallelOptions& options) {
  if (options.group.ranks == 1) return std::make_shared<LocalExperts>(options);
  if (options.exchange == ExpertExchange::fixed_size) return std::make_shared<FixedSizeExchange>(options);
  return std::make_shared<ExactExchange>(options);
}

}  // namespace rondo
