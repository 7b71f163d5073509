// One constexpr table and a hash map over it, built at first use. An op without a row gets the defaults,
// which are those of pure compute; so a new op with an effect needs a row, or passes will drop and merge it.
// In-place forms are listed only where the bits are equal: mul_.Scalar differs from mul.Scalar in bf16 on the
// CPU. Floating-point operations follow from the sizes of the operands alone.
#include "compiler/ir/op_facts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <vector>

namespace rondo::ir {
namespace {

constexpr OpFacts effect(std::string_view name, Effect effect) { return {.name = name, .effect = effect}; }
constexpr OpFacts collective(std::string_view name, CollectiveFacts collective) {
  return {.name = name, .effect = Effect::collective_start, .collective = collective};
}
constexpr OpFacts view(std::string_view name, ViewKind kind) { return {.name = name, .view = kind}; }
constexpr OpFacts heavy(std::string_view name) { return {.name = name, .heavy = true}; }
constexpr OpFacts in_place(std::string_view name, std::string_view form, int overwritten = 1) {
  return {.name = name, .in_place = form, .overwritten = overwritten};
}

constexpr OpFacts taken_apart(std::string_view name, Signature signature) {
  return {.name = name, .signature = signature};
}
constexpr OpFacts reuses(std::string_view name, int argument) { return {.name = name, .reuses = argument}; }

constexpr std::array kFacts = {
    collective(kAllGather, {.kind = CollectiveKind::all_gather, .group = 2, .ranks = 1}),
    collective(kAllReduce, {.kind = CollectiveKind::all_reduce, .group = 2, .reduction = 1}),
    collective("_c10d_functional.all_to_all_single.default",
               {.kind = CollectiveKind::all_to_all, .group = 3}),
    collective("_c10d_functional.broadcast.default", {.kind = CollectiveKind::broadcast, .group = 2}),
    collective(kReduceScatter,
               {.kind = CollectiveKind::reduce_scatter, .group = 3, .ranks = 2, .reduction = 1}),
    effect(kWaitTensor, Effect::wait),

    effect(kOffload, Effect::transfer_start),
    effect(kReload, Effect::transfer_start),
    effect(kWaitTransfer, Effect::wait),

    effect("aten.bernoulli.default", Effect::random),
    effect("aten.bernoulli.p", Effect::random),
    effect("aten.exponential.default", Effect::random),
    effect("aten.multinomial.default", Effect::random),
    effect("aten.native_dropout.default", Effect::random),
    effect("aten.normal_functional.default", Effect::random),
    effect("aten.rand.default", Effect::random),
    effect("aten.rand_like.default", Effect::random),
    effect("aten.randint.default", Effect::random),
    effect("aten.randint.low", Effect::random),
    effect("aten.randint_like.default", Effect::random),
    effect("aten.randn.default", Effect::random),
    effect("aten.randn_like.default", Effect::random),
    effect("aten.randperm.default", Effect::random),
    effect("aten.uniform.default", Effect::random),

    effect("aten._local_scalar_dense.default", Effect::host_sync),
    effect("aten.equal.default", Effect::host_sync),
    effect("aten.masked_select.default", Effect::host_sync),
    effect("aten.nonzero.default", Effect::host_sync),
    OpFacts{.name = "rondo.all_to_all_tokens.default",
            .effect = Effect::host_sync,
            .collective = CollectiveFacts{.kind = CollectiveKind::all_to_all, .group = 6}},

    view("aten._unsafe_view.default", ViewKind::same_start),
    view("aten.alias.default", ViewKind::same_start),
    view("aten.detach.default", ViewKind::same_start),
    view("aten.expand.default", ViewKind::same_start),
    view("aten.permute.default", ViewKind::same_start),
    view("aten.squeeze.default", ViewKind::same_start),
    view("aten.squeeze.dim", ViewKind::same_start),
    view("aten.squeeze.dims", ViewKind::same_start),
    view("aten.t.default", ViewKind::same_start),
    view("aten.transpose.int", ViewKind::same_start),
    view("aten.unsqueeze.default", ViewKind::same_start),
    view("aten.view.default", ViewKind::same_start),
    view("aten.as_strided.default", ViewKind::moved_start),
    view("aten.diagonal.default", ViewKind::moved_start),
    view("aten.select.int", ViewKind::moved_start),
    view("aten.slice.Tensor", ViewKind::moved_start),
    view("aten.split.Tensor", ViewKind::moved_start),
    view("aten.split_with_sizes.default", ViewKind::moved_start),
    view("aten.unbind.int", ViewKind::moved_start),
    view("aten.unfold.default", ViewKind::moved_start),

    heavy("aten._grouped_mm.default"),
    OpFacts{.name = "aten.addmm.default", .heavy = true, .in_place = "aten.addmm_.default", .overwritten = 1},
    heavy("aten.addmm_.default"),
    heavy("aten.bmm.default"),
    heavy("aten.mm.default"),
    OpFacts{
        .name = "rondo.addmm.default", .heavy = true, .in_place = "rondo.addmm_.default", .overwritten = 1},
    heavy("rondo.addmm_.default"),
    heavy("rondo.attention.default"),
    heavy("rondo.attention_backward.default"),
    OpFacts{.name = "rondo.float8_mm.default",
            .heavy = true,
            .signature = Signature{.tensors = 4, .arguments = 7, .results = 1}},
    heavy("rondo.grouped_mm.default"),
    heavy("rondo.linear_cross_entropy.default"),
    heavy("rondo.linear_cross_entropy_gradients.default"),
    heavy("rondo.linear_cross_entropy_losses.default"),
    heavy("rondo.linear_cross_entropy_statistics.default"),
    heavy("rondo.mm.default"),

    // No *.Scalar form: on CPU mul_.Scalar is not bit-equal to mul.Scalar in bf16.
    in_place("aten.add.Tensor", "aten.add_.Tensor"),
    in_place("aten.div.Tensor", "aten.div_.Tensor"),
    in_place("aten.exp.default", "aten.exp_.default"),
    in_place("aten.mul.Tensor", "aten.mul_.Tensor"),
    in_place("aten.neg.default", "aten.neg_.default"),
    in_place("aten.reciprocal.default", "aten.reciprocal_.default"),
    in_place("aten.rsqrt.default", "aten.rsqrt_.default"),
    in_place("aten.sigmoid.default", "aten.sigmoid_.default"),
    in_place("aten.silu.default", "aten.silu_.default"),
    in_place("aten.sqrt.default", "aten.sqrt_.default"),
    in_place("aten.sub.Tensor", "aten.sub_.Tensor"),
    in_place("aten.zero.default", "aten.zero_.default"),
    OpFacts{.name = "rondo.adamw.default",
            .in_place = "rondo.adamw_.default",
            .overwritten = 3,  // parameters, exp_avgs, exp_avg_sqs
            .widens = 3},      // gradients
    OpFacts{.name = "rondo.sums_of_squares.default", .widens = 0},

    reuses("aten.silu_backward.default", 0),
    reuses("rondo.cross_entropy_backward.default", 1),
    reuses("rondo.swiglu.default", 0),
    reuses("rondo.swiglu_backward.default", 0),

    taken_apart("rondo.add_rms_norm.default", {.tensors = 3, .arguments = 4, .results = 3}),
    taken_apart("rondo.add_rms_norm_backward.default", {.tensors = 5, .arguments = 5, .results = 2}),
    taken_apart("rondo.quantize_float8.default", {.tensors = 1, .arguments = 5, .results = 2}),
    taken_apart("rondo.rms_norm.default", {.tensors = 2, .arguments = 3, .results = 2}),
    taken_apart("rondo.rms_norm_backward.default", {.tensors = 4, .arguments = 4, .results = 2}),
};

constexpr std::array<std::string_view, kCollectiveKinds> kCollectiveNames = {
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast"};

// nullptr where there is no such argument.
template <class T>
const T* argument(const Node& node, int position) {
  const auto i = static_cast<std::size_t>(position);
  return i < node.args.size() ? std::get_if<T>(&node.args[i]) : nullptr;
}
std::string_view text_argument(const Node& node, int position) {
  const auto* text = argument<std::string>(node, position);
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

using Sizes = std::vector<std::int64_t>;

double product(const Sizes& sizes) {
  double count = 1;
  for (std::int64_t size : sizes) count *= static_cast<double>(size);
  return count;
}

// 2 * (rows * inner) * columns, for a [(G,) M, K] times a [(G,) K, N]. A grouped product of [M, K] with [G,
// K, N] gives each row to one group; one of [M, K] with [K, N] cuts K into groups: neither multiplies by G.
double matrix_product(const Sizes& left, const Sizes& right) {
  return right.empty() ? 0 : 2 * product(left) * static_cast<double>(right.back());
}

// q [B, H, T, D], k [B, G, S, D] and v [B, G, S, V]: products of width D and of width V, of the pairs that
// the mask lets meet. Where T of S queries are here, their share of all; each row is taken as one document.
double attention(const AttentionMask& mask, const Sizes& q, const Sizes& k, const Sizes& v, double of_qk,
                 double of_v) {
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[2] == 0) return 0;
  const double of_all = static_cast<double>(q[2]) / static_cast<double>(k[2]);
  const double pairs = static_cast<double>(q[0] * q[1]) * of_all * attended_pairs(mask, k[2]);
  return 2 * pairs * (of_qk * static_cast<double>(q[3]) + of_v * static_cast<double>(v[3]));
}

// Products of a head in chunks: the logits, and with gradients those of h [N, D] and of weight [V, D].
double linear_cross_entropy(std::string_view op, const Sizes& h, const Sizes& weight) {
  if (weight.empty()) return 0;
  const bool has_gradients = !op.ends_with("_losses.default") && !op.ends_with("_statistics.default");
  return (has_gradients ? 3 : 1) * 2 * product(h) * static_cast<double>(weight.front());
}

}  // namespace

std::span<const OpFacts> all_facts() { return kFacts; }

const OpFacts& facts(std::string_view op) {
  static const auto* const table = [] {
    auto* rows = new std::unordered_map<std::string_view, const OpFacts*>;
    for (const OpFacts& row : kFacts) rows->emplace(row.name, &row);
    return rows;
  }();
  static constexpr OpFacts kUnknown;
  const auto row = table->find(op);
  return row == table->end() ? kUnknown : *row->second;
}

std::string_view collective_name(CollectiveKind kind) {
  return kCollectiveNames[static_cast<std::size_t>(kind)];
}

std::optional<Collective> collective_of(const Node& node) {
  const OpFacts& op = facts(node.op);
  if (!op.collective) return std::nullopt;
  const auto* ranks = argument<std::int64_t>(node, op.collective->ranks);
  return Collective{.kind = op.collective->kind,
                    .group = text_argument(node, op.collective->group),
                    .ranks = ranks != nullptr ? *ranks : 0,
                    .reduction = text_argument(node, op.collective->reduction)};
}

bool sends_equal_pieces(const Node& node) {
  if (node.op != "_c10d_functional.all_to_all_single.default") return false;
  for (const int splits : {1, 2}) {
    const auto* rows = argument<std::vector<std::int64_t>>(node, splits);
    if (rows == nullptr ||
        std::adjacent_find(rows->begin(), rows->end(), std::not_equal_to<>()) != rows->end())
      return false;
  }
  return true;
}

bool is_collective(const Node& node, CollectiveKind kind) {
  const OpFacts& op = facts(node.op);
  return op.collective && op.collective->kind == kind;
}

bool converts_on_device(const Node& node) {
  // (self, dtype, layout, device, pin_memory, non_blocking, memory_format)
  if (node.op != kToCopy || node.args.size() != 7 || !std::holds_alternative<Use>(node.args[0]) ||
      node.results.size() != 1)
    return false;
  const bool moves =
      !std::holds_alternative<None>(node.args[3]) && node.args[3] != Argument(Symbol{"device"});
  const bool pins = !std::holds_alternative<None>(node.args[4]) && node.args[4] != Argument(false);
  return !moves && !pins;
}

AttentionMask mask_of(const Node& node) {
  AttentionMask mask;
  int at = node.op == "rondo.attention.default" ? 5 : 8;
  for (std::int64_t* term : {&mask.left, &mask.right, &mask.chunk}) {
    if (const auto* given = argument<std::int64_t>(node, at)) *term = *given;
    ++at;
  }
  return mask;
}

double flops(const Graph& graph, const Node& node) {
  if (!facts(node.op).heavy) return 0;
  std::vector<const Sizes*> operands;
  for_each_operand(node, [&](ValueId id) { operands.push_back(&graph.value(id).type.sizes); });
  const std::size_t first = node.op.starts_with("aten.addmm") || node.op.starts_with("rondo.addmm") ||
                            node.op == "rondo.attention_backward.default";
  const auto operand = [&](std::size_t i) -> const Sizes& {
    static const Sizes kNone;
    return first + i < operands.size() ? *operands[first + i] : kNone;
  };
  if (node.op == "rondo.attention.default")
    return attention(mask_of(node), operand(0), operand(1), operand(2), 1, 1);
  // The scores again, their gradient, and those of q, k and v.
  if (node.op == "rondo.attention_backward.default")
    return attention(mask_of(node), operand(0), operand(1), operand(2), 3, 2);
  if (node.op.starts_with("rondo.linear_cross_entropy"))
    return linear_cross_entropy(node.op, operand(0), operand(1));
  if (node.op == "rondo.float8_mm.default")  // (a [M, K], its scales, b [N, K], its scales)
    return operand(2).empty() ? 0 : 2 * product(operand(0)) * static_cast<double>(operand(2).front());
  return matrix_product(operand(0), operand(1));
}

}  // namespace rondo::ir
