// Tokens permuted for experts and back: shape rules, and CPU kernels, each row by one thread.
#include "ops/permute_tokens/permute_tokens.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/kernel/element.h"
#include "ops/kernel/op_handle.h"
#include "ops/kernel/parallel_rows.h"
#include "ops/kernel/rows.h"
#include "ops/kernel/with_dtype.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

template <class T>
const T* data_of(const MaybeTensor& x) {
  return x ? x->const_data_ptr<T>() : nullptr;
}

// Rows [N, width], and rows that are added to them, or null.
template <class Row>
struct SummedRows {
  const Row *rows, *addend;
  std::int64_t width;

  // Calls body(at), where at(d) is element d of row i.
  template <class Body>
  void with_row(std::int64_t i, const Body& body) const {
    const Row* const row = rows + i * width;
    if (addend == nullptr) return body([=](std::int64_t d) { return row[d]; });
    const Row* const more = addend + i * width;
    body([=](std::int64_t d) {
      return static_cast<Row>(static_cast<SumOf<Row>>(row[d]) + static_cast<SumOf<Row>>(more[d]));
    });
  }
};

Tensor permute_tokens_cpu(const Tensor& x_TD, const Tensor& order_R, const MaybeTensor& count,
                          std::int64_t copies, const MaybeTensor& scores_TK, const MaybeTensor& addend_TD) {
  const Tensor x = x_TD.contiguous(), order = order_R.contiguous();
  const MaybeTensor scores = contiguous(scores_TK), addend = contiguous(addend_TD);
  const Tensor result = permute_tokens_result(x, order, addend);
  const std::int64_t width = x.size(1), slots = x.size(0) * copies;
  const std::int64_t filled = filled_rows(count, order.size(0));
  with_dtype(x, "permute_tokens", [&](auto type) {
    using Row = decltype(type);
    const SummedRows<Row> from{x.const_data_ptr<Row>(), data_of<Row>(addend), width};
    const SumOf<Row>* const score = data_of<SumOf<Row>>(scores);
    const std::int64_t* const slot_of = order.const_data_ptr<std::int64_t>();
    Row* const to = result.mutable_data_ptr<Row>();
    for_each_row(order.size(0), width, [&](std::int64_t r) {
      Row* const out = to + r * width;
      if (r >= filled) {
        std::fill(out, out + width, Row(0));
        return;
      }
      RONDO_ASSERT(slot_of[r] >= 0 && slot_of[r] < slots, "permute_tokens: order must hold existing slots");
      from.with_row(slot_of[r] / copies, [&](const auto& at) {
        if (score == nullptr) {
          for (std::int64_t d = 0; d < width; ++d) out[d] = at(d);
          return;
        }
        const SumOf<Row> s = score[slot_of[r]];
        for (std::int64_t d = 0; d < width; ++d)
          out[d] = static_cast<Row>(s * static_cast<SumOf<Row>>(at(d)));
      });
    });
  });
  return result;
}

// Writes a row of sums, some columns at a time. add(each) calls each(at, factor) for each row of
// the sum, where at(d) is its element d.
template <class Row, class Out, class Add>
void write_sums(Out* out, std::int64_t width, const Add& add) {
  using Sum = SumOf<Row>;
  constexpr std::int64_t kColumns = 256;
  for (std::int64_t first = 0; first < width; first += kColumns) {
    const std::int64_t columns = std::min(kColumns, width - first);
    Sum sums[kColumns] = {};
    add([&](const auto& at, Sum factor) {
      for (std::int64_t d = 0; d < columns; ++d) sums[d] += factor * static_cast<Sum>(at(first + d));
    });
    for (std::int64_t d = 0; d < columns; ++d) out[first + d] = static_cast<Out>(sums[d]);
  }
}

Tensor unpermute_tokens_cpu(const Tensor& rows_RD, const Tensor& place_TK, const MaybeTensor& count,
                            const MaybeTensor& scores_TK, bool narrow, const MaybeTensor& addend_RD) {
  const Tensor rows = rows_RD.contiguous(), place = place_TK.contiguous();
  const MaybeTensor scores = contiguous(scores_TK), addend = contiguous(addend_RD);
  const Tensor result = unpermute_tokens_result(rows, place, narrow, addend);
  const std::int64_t width = rows.size(1), copies = place.size(1);
  const std::int64_t filled = filled_rows(count, rows.size(0));
  with_dtype(rows, "unpermute_tokens", [&](auto type) {
    using Row = decltype(type);
    using Sum = SumOf<Row>;
    const SummedRows<Row> from{rows.const_data_ptr<Row>(), data_of<Row>(addend), width};
    const Sum* const score = data_of<Sum>(scores);
    const std::int64_t* const place_of = place.const_data_ptr<std::int64_t>();
    const auto sum_to = [&](auto* out) {
      for_each_row(place.size(0), width * copies, [&](std::int64_t t) {
        write_sums<Row>(out + t * width, width, [&](const auto& each) {
          for (std::int64_t slot = t * copies; slot < (t + 1) * copies; ++slot)
            if (place_of[slot] >= 0 && place_of[slot] < filled)
              from.with_row(place_of[slot],
                            [&](const auto& at) { each(at, score == nullptr ? Sum(1) : score[slot]); });
        });
      });
    };
    if (narrow)
      sum_to(result.mutable_data_ptr<Row>());
    else
      sum_to(result.mutable_data_ptr<Sum>());
  });
  return result;
}

Tensor sum_pieces_cpu(const Tensor& x_ND, std::int64_t pieces, std::string_view) {
  const Tensor x = x_ND.contiguous(), result = sum_pieces_result(x, pieces);
  const std::int64_t width = x.size(1), rows = result.size(0);
  with_dtype(x, "sum_pieces", [&](auto type) {
    using Row = decltype(type);
    const SummedRows<Row> from{x.const_data_ptr<Row>(), nullptr, width};
    Row* const to = result.mutable_data_ptr<Row>();
    for_each_row(rows, width * pieces, [&](std::int64_t row) {
      write_sums<Row>(to + row * width, width, [&](const auto& each) {
        for (std::int64_t piece = 0; piece < pieces; ++piece)
          from.with_row(piece * rows + row, [&](const auto& at) { each(at, 1); });
      });
    });
  });
  return result;
}

Tensor dot_rows_cpu(const Tensor& rows_RD, const Tensor& x_TD, const Tensor& place_TK,
                    const MaybeTensor& count) {
  const Tensor rows = rows_RD.contiguous(), x = x_TD.contiguous(), place = place_TK.contiguous();
  RONDO_ASSERT(rows.scalar_type() == x.scalar_type(), "dot_rows: rows and x must have one dtype");
  const Tensor result = dot_rows_result(rows, place);
  const std::int64_t width = rows.size(1), copies = place.size(1);
  const std::int64_t filled = filled_rows(count, rows.size(0));
  with_dtype(rows, "dot_rows", [&](auto type) {
    using Row = decltype(type);
    using Sum = SumOf<Row>;
    const Row *const left = rows.const_data_ptr<Row>(), *const right = x.const_data_ptr<Row>();
    const std::int64_t* const place_of = place.const_data_ptr<std::int64_t>();
    Sum* const to = result.mutable_data_ptr<Sum>();
    for_each_row(place.numel(), width, [&](std::int64_t slot) {
      to[slot] = 0;
      if (place_of[slot] < 0 || place_of[slot] >= filled) return;
      const Row *const a = left + place_of[slot] * width, *const b = right + slot / copies * width;
      // Several partial sums in a fixed order: a single sum would wait for each addition.
      constexpr std::int64_t kSums = 16;
      Sum sums[kSums] = {};
      std::int64_t d = 0;
      for (; d + kSums <= width; d += kSums)
        for (std::int64_t i = 0; i < kSums; ++i)
          sums[i] += static_cast<Sum>(a[d + i]) * static_cast<Sum>(b[d + i]);
      for (; d < width; ++d) sums[d % kSums] += static_cast<Sum>(a[d]) * static_cast<Sum>(b[d]);
      for (const Sum sum : sums) to[slot] += sum;
    });
  });
  return result;
}

std::tuple<Tensor, Tensor> order_by_expert_cpu(const Tensor& some_counts, std::int64_t rows,
                                               std::string_view) {
  const Tensor counts = some_counts.contiguous();
  const auto [order, place] = order_by_expert_results(counts, rows);
  const std::int64_t ranks = counts.size(0), experts = counts.size(1);
  const auto* const count = counts.const_data_ptr<std::int32_t>();
  auto* const row_at = order.mutable_data_ptr<std::int64_t>();
  auto* const place_of = place.mutable_data_ptr<std::int64_t>();
  // of each run, by rank
  std::vector<std::int64_t> begins(static_cast<std::size_t>(ranks * experts));
  std::exclusive_scan(count, count + counts.numel(), begins.begin(), std::int64_t{0});
  std::int64_t filled = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t run = rank * experts + expert;
      RONDO_ASSERT(count[run] >= 0 && count[run] <= rows - filled,
                   "order_by_expert: the counts exceed the rows");
      for (std::int64_t i = 0; i < count[run]; ++i, ++filled) {
        const std::int64_t row = begins[static_cast<std::size_t>(run)] + i;
        row_at[filled] = row;
        place_of[row] = filled;
      }
    }
  std::iota(row_at + filled, row_at + rows, filled);
  std::iota(place_of + filled, place_of + rows, filled);
  return {order, place};
}

void check_addend(const Tensor& rows, const MaybeTensor& addend) {
  RONDO_ASSERT(!addend || (addend->sizes() == rows.sizes() && addend->scalar_type() == rows.scalar_type()),
               "permute_tokens: rows and addend must have one shape and dtype");
}

}  // namespace

MaybeTensor contiguous(const MaybeTensor& x) { return x ? MaybeTensor(x->contiguous()) : std::nullopt; }

Tensor permute_tokens_result(const Tensor& x, const Tensor& order, const MaybeTensor& addend) {
  check_addend(x, addend);
  return at::empty({order.size(0), x.size(1)}, x.options());
}
Tensor unpermute_tokens_result(const Tensor& rows, const Tensor& place, bool narrow,
                               const MaybeTensor& addend) {
  check_addend(rows, addend);
  return at::empty({place.size(0), rows.size(1)},
                   rows.options().dtype(narrow ? rows.scalar_type() : sum_dtype(rows)));
}
Tensor sum_pieces_result(const Tensor& x, std::int64_t pieces) {
  RONDO_ASSERT(pieces > 0 && x.size(0) % pieces == 0, "sum_pieces: the pieces must divide the rows");
  return at::empty({x.size(0) / pieces, x.size(1)}, x.options());
}
Tensor dot_rows_result(const Tensor& rows, const Tensor& place) {
  return at::empty(place.sizes(), rows.options().dtype(sum_dtype(rows)));
}

std::tuple<Tensor, Tensor> order_by_expert_results(const Tensor& counts, std::int64_t rows) {
  const auto whole = counts.options().dtype(at::kLong);
  return {at::empty({rows}, whole), at::empty({rows}, whole)};
}

Tensor permute_tokens(const Tensor& x, const Tensor& order, const MaybeTensor& count, std::int64_t copies,
                      const MaybeTensor& scores, const MaybeTensor& addend) {
  static const auto handle = op_handle<decltype(permute_tokens_cpu)>("rondo::permute_tokens");
  return handle.call(x, order, count, copies, scores, addend);
}

Tensor unpermute_tokens(const Tensor& rows, const Tensor& place, const MaybeTensor& count,
                        const MaybeTensor& scores, bool narrow, const MaybeTensor& addend) {
  static const auto handle = op_handle<decltype(unpermute_tokens_cpu)>("rondo::unpermute_tokens");
  return handle.call(rows, place, count, scores, narrow, addend);
}

Tensor sum_pieces(const Tensor& x, std::int64_t pieces, std::string_view group) {
  static const auto handle = op_handle<decltype(sum_pieces_cpu)>("rondo::sum_pieces");
  return handle.call(x, pieces, group);
}

Tensor dot_rows(const Tensor& rows, const Tensor& x, const Tensor& place, const MaybeTensor& count) {
  static const auto handle = op_handle<decltype(dot_rows_cpu)>("rondo::dot_rows");
  return handle.call(rows, x, place, count);
}

RowOrder order_by_expert(const Tensor& counts, std::int64_t rows, std::string_view group) {
  static const auto handle = op_handle<decltype(order_by_expert_cpu)>("rondo::order_by_expert");
  auto [order, place] = handle.call(counts, rows, group);
  return {std::move(order), std::move(place)};
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "permute_tokens(Tensor x, Tensor order, Tensor? count, int copies, Tensor? scores, Tensor? addend) -> "
      "Tensor");
  m.def(
      "unpermute_tokens(Tensor rows, Tensor place, Tensor? count, Tensor? scores, bool narrow, Tensor? "
      "addend) -> Tensor");
  m.def("sum_pieces(Tensor x, int pieces, str group) -> Tensor");
  m.def("dot_rows(Tensor rows, Tensor x, Tensor place, Tensor? count) -> Tensor");
  m.def("order_by_expert(Tensor counts, int rows, str group) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("permute_tokens", &permute_tokens_cpu);
  m.impl("unpermute_tokens", &unpermute_tokens_cpu);
  m.impl("sum_pieces", &sum_pieces_cpu);
  m.impl("dot_rows", &dot_rows_cpu);
  m.impl("order_by_expert", &order_by_expert_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("permute_tokens",
         [](const Tensor& x, const Tensor& order, const MaybeTensor&, std::int64_t, const MaybeTensor&,
            const MaybeTensor& addend) { return permute_tokens_result(x, order, addend); });
  m.impl("unpermute_tokens",
         [](const Tensor& rows, const Tensor& place, const MaybeTensor&, const MaybeTensor&, bool narrow,
            const MaybeTensor& addend) { return unpermute_tokens_result(rows, place, narrow, addend); });
  m.impl("sum_pieces",
         [](const Tensor& x, std::int64_t pieces, std::string_view) { return sum_pieces_result(x, pieces); });
  m.impl("dot_rows", [](const Tensor& rows, const Tensor&, const Tensor& place, const MaybeTensor&) {
    return dot_rows_result(rows, place);
  });
  m.impl("order_by_expert", [](const Tensor& counts, std::int64_t rows, std::string_view) {
    return order_by_expert_results(counts, rows);
  });
}

}  // namespace rondo
