#include "ops/permute_tokens/permute_tokens.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>

#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;

at::ScalarType sum_dtype(const Tensor& rows) {
  return rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
Tensor empty_rows(const Tensor& x, const Tensor& order) {
  return at::empty({order.size(0), x.size(1)}, x.options());
}
Tensor empty_sums(const Tensor& rows, const Tensor& place) {
  return at::empty({place.size(0), rows.size(1)}, rows.options().dtype(sum_dtype(rows)));
}
Tensor empty_products(const Tensor& rows, const Tensor& place) {
  return at::empty(place.sizes(), rows.options().dtype(sum_dtype(rows)));
}

template <class Row>
using SumOf = std::conditional_t<std::is_same_v<Row, double>, double, float>;

// Calls body(Row()) with the type of the rows' elements.
template <class Body>
void with_type_of(const Tensor& rows, const char* op, const Body& body) {
  switch (rows.scalar_type()) {
    case at::kFloat:
      return body(float());
    case at::kBFloat16:
      return body(at::BFloat16());
    case at::kDouble:
      return body(double());
    default:
      throw Error(ExitCode::internal,
                  std::string(op) + " has no rows of " + c10::toString(rows.scalar_type()));
  }
}

std::int64_t rows_that_count(const MaybeTensor& count, std::int64_t rows) {
  return count ? std::clamp<std::int64_t>(*count->const_data_ptr<std::int32_t>(), 0, rows) : rows;
}

// Rows for each task of a parallel loop, such that it is worth a thread.
std::int64_t grain(std::int64_t elements_a_row) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(elements_a_row, 1));
}

template <class Row>
const SumOf<Row>* data_of(const MaybeTensor& scores) {
  return scores ? scores->const_data_ptr<SumOf<Row>>() : nullptr;
}

Tensor take_rows_cpu(const Tensor& x_TD, const Tensor& order_R, const MaybeTensor& count, std::int64_t copies,
                     const MaybeTensor& scores_TK) {
  const Tensor x = x_TD.contiguous(), order = order_R.contiguous();
  const MaybeTensor scores = scores_TK ? MaybeTensor(scores_TK->contiguous()) : std::nullopt;
  const Tensor result = empty_rows(x, order);
  const std::int64_t width = x.size(1), slots = x.size(0) * copies;
  const std::int64_t filled = rows_that_count(count, order.size(0));
  with_type_of(x, "permute_tokens", [&](auto type) {
    using Row = decltype(type);
    const Row* const from = x.const_data_ptr<Row>();
    const SumOf<Row>* const score = data_of<Row>(scores);
    const std::int64_t* const slot_of = order.const_data_ptr<std::int64_t>();
    Row* const to = result.mutable_data_ptr<Row>();
    at::parallel_for(0, order.size(0), grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        Row* const out = to + r * width;
        if (r >= filled) {
          std::fill(out, out + width, Row(0));
          continue;
        }
        RONDO_ASSERT(slot_of[r] >= 0 && slot_of[r] < slots,
                     "a row of permute_tokens is of a slot that exists");
        const Row* const in = from + slot_of[r] / copies * width;
        if (score == nullptr) {
          std::copy(in, in + width, out);
        } else {
          const SumOf<Row> s = score[slot_of[r]];
          for (std::int64_t d = 0; d < width; ++d)
            out[d] = static_cast<Row>(s * static_cast<SumOf<Row>>(in[d]));
        }
      }
    });
  });
  return result;
}

Tensor sum_rows_cpu(const Tensor& rows_RD, const Tensor& place_TK, const MaybeTensor& count,
                    const MaybeTensor& scores_TK) {
  const Tensor rows = rows_RD.contiguous(), place = place_TK.contiguous();
  const MaybeTensor scores = scores_TK ? MaybeTensor(scores_TK->contiguous()) : std::nullopt;
  const Tensor result = empty_sums(rows, place);
  const std::int64_t width = rows.size(1), copies = place.size(1);
  const std::int64_t filled = rows_that_count(count, rows.size(0));
  with_type_of(rows, "unpermute_tokens", [&](auto type) {
    using Row = decltype(type);
    using Sum = SumOf<Row>;
    const Row* const from = rows.const_data_ptr<Row>();
    const Sum* const score = data_of<Row>(scores);
    const std::int64_t* const place_of = place.const_data_ptr<std::int64_t>();
    Sum* const to = result.mutable_data_ptr<Sum>();
    at::parallel_for(0, place.size(0), grain(width * copies), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        Sum* const out = to + t * width;
        std::fill(out, out + width, Sum(0));
        for (std::int64_t slot = t * copies; slot < (t + 1) * copies; ++slot) {
          if (place_of[slot] < 0 || place_of[slot] >= filled) continue;
          const Row* const in = from + place_of[slot] * width;
          const Sum s = score == nullptr ? Sum(1) : score[slot];
          for (std::int64_t d = 0; d < width; ++d) out[d] += s * static_cast<Sum>(in[d]);
        }
      }
    });
  });
  return result;
}

Tensor dot_rows_cpu(const Tensor& rows_RD, const Tensor& x_TD, const Tensor& place_TK,
                    const MaybeTensor& count) {
  const Tensor rows = rows_RD.contiguous(), x = x_TD.contiguous(), place = place_TK.contiguous();
  RONDO_ASSERT(rows.scalar_type() == x.scalar_type(), "dot_rows has rows of one type");
  const Tensor result = empty_products(rows, place);
  const std::int64_t width = rows.size(1), copies = place.size(1);
  const std::int64_t filled = rows_that_count(count, rows.size(0));
  with_type_of(rows, "dot_rows", [&](auto type) {
    using Row = decltype(type);
    using Sum = SumOf<Row>;
    const Row *const left = rows.const_data_ptr<Row>(), *const right = x.const_data_ptr<Row>();
    const std::int64_t* const place_of = place.const_data_ptr<std::int64_t>();
    Sum* const to = result.mutable_data_ptr<Sum>();
    at::parallel_for(0, place.numel(), grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        to[slot] = 0;
        if (place_of[slot] < 0 || place_of[slot] >= filled) continue;
        const Row *const a = left + place_of[slot] * width, *const b = right + slot / copies * width;
        // Several sums side by side, in a fixed order: one alone would wait for each addition.
        constexpr std::int64_t kSums = 16;
        Sum sums[kSums] = {};
        std::int64_t d = 0;
        for (; d + kSums <= width; d += kSums)
          for (std::int64_t i = 0; i < kSums; ++i)
            sums[i] += static_cast<Sum>(a[d + i]) * static_cast<Sum>(b[d + i]);
        for (; d < width; ++d) sums[d % kSums] += static_cast<Sum>(a[d]) * static_cast<Sum>(b[d]);
        for (const Sum sum : sums) to[slot] += sum;
      }
    });
  });
  return result;
}

Tensor take_rows_meta(const Tensor& x, const Tensor& order, const MaybeTensor&, std::int64_t,
                      const MaybeTensor&) {
  return empty_rows(x, order);
}
Tensor sum_rows_meta(const Tensor& rows, const Tensor& place, const MaybeTensor&, const MaybeTensor&) {
  return empty_sums(rows, place);
}
Tensor dot_rows_meta(const Tensor& rows, const Tensor&, const Tensor& place, const MaybeTensor&) {
  return empty_products(rows, place);
}

template <class Function>
auto op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace

Tensor permute_tokens(const Tensor& x, const Tensor& order, const MaybeTensor& count, std::int64_t copies,
                      const MaybeTensor& scores) {
  static const auto handle = op<decltype(take_rows_cpu)>("rondo::permute_tokens");
  return handle.call(x, order, count, copies, scores);
}

Tensor unpermute_tokens(const Tensor& rows, const Tensor& place, const MaybeTensor& count,
                        const MaybeTensor& scores) {
  static const auto handle = op<decltype(sum_rows_cpu)>("rondo::unpermute_tokens");
  return handle.call(rows, place, count, scores);
}

Tensor dot_rows(const Tensor& rows, const Tensor& x, const Tensor& place, const MaybeTensor& count) {
  static const auto handle = op<decltype(dot_rows_cpu)>("rondo::dot_rows");
  return handle.call(rows, x, place, count);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def("permute_tokens(Tensor x, Tensor order, Tensor? count, int copies, Tensor? scores) -> Tensor");
  m.def("unpermute_tokens(Tensor rows, Tensor place, Tensor? count, Tensor? scores) -> Tensor");
  m.def("dot_rows(Tensor rows, Tensor x, Tensor place, Tensor? count) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) {
  m.impl("permute_tokens", &take_rows_cpu);
  m.impl("unpermute_tokens", &sum_rows_cpu);
  m.impl("dot_rows", &dot_rows_cpu);
}
TORCH_LIBRARY_IMPL(rondo, Meta, m) {
  m.impl("permute_tokens", &take_rows_meta);
  m.impl("unpermute_tokens", &sum_rows_meta);
  m.impl("dot_rows", &dot_rows_meta);
}

}  // namespace rondo
