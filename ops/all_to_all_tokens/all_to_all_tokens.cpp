// The exchange on every device, and autograd. The rows for a rank are contiguous, and mostly all
// are sent. Then rows are sent from their place and received in their final place, without a copy.
#include "ops/all_to_all_tokens/all_to_all_tokens.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <memory>
#include <numeric>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "ops/kernel/op_handle.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Counts = std::vector<std::int64_t>;

Counts counts_in(const Tensor& on_host) {
  const Tensor counts = on_host.contiguous();
  const auto* const data = counts.const_data_ptr<std::int32_t>();
  return {data, data + counts.numel()};
}

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Packed rows, allocated without an allocator on the CPU. A group's thread may release a tensor
// shortly after its wait, and no allocator should record that.
Tensor buffer_for(std::int64_t count, const Tensor& rows) {
  const std::vector<std::int64_t> sizes = {count, rows.size(1)};
  if (!rows.is_cpu()) return at::empty(sizes, rows.options());
  auto bytes = std::make_unique_for_overwrite<char[]>(
      static_cast<std::size_t>(count * rows.size(1) * rows.element_size()));
  const auto free_bytes = [](void* data) { delete[] static_cast<char*>(data); };
  return at::from_blob(bytes.release(), sizes, free_bytes, rows.options());
}

// Returns rows in the form that a group sends. Gloo has no bf16; see also above.
Tensor message(const Tensor& rows) {
  if (!rows.is_cpu()) return rows;
  return at::from_blob(const_cast<void*>(rows.const_data_ptr()),
                       {rows.size(0), rows.size(1) * rows.element_size()},
                       at::TensorOptions().dtype(at::kByte));
}

// The dispatcher passes names by value.
Tensor all_to_all_tokens_cpu(const Tensor& rows, const Tensor& offered, const Tensor& sent,
                             const Tensor& received, bool back, std::int64_t result_rows, std::string group) {
  return all_to_all_by_counts(rows, {offered, sent, received}, back, result_rows, group);
}

Tensor all_to_all_tokens_meta(const Tensor& rows, const Tensor&, const Tensor&, const Tensor&, bool,
                              std::int64_t result_rows, std::string) {
  return at::empty({result_rows, rows.size(1)}, rows.options());
}
// NOLINTEND(performance-unnecessary-value-param)

Tensor call(const Tensor& rows, const RowCounts& counts, bool back, std::int64_t result_rows,
            const std::string& group) {
  static const auto handle = op_handle<decltype(all_to_all_tokens_cpu)>("rondo::all_to_all_tokens");
  return handle.call(rows, counts.offered, counts.sent, counts.received, back, result_rows, group);
}

struct AllToAllTokens : torch::autograd::Function<AllToAllTokens> {
  static Tensor forward(AutogradContext* context, const Tensor& rows, const Tensor& offered,
                        const Tensor& sent, const Tensor& received, bool back, std::int64_t result_rows,
                        const std::string& group) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({offered, sent, received});
    context->saved_data["back"] = back;
    context->saved_data["rows"] = rows.size(0);
    context->saved_data["group"] = group;
    return call(rows, {offered, sent, received}, back, result_rows, group);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto& data = context->saved_data;
    return {call(gradients[0].contiguous(), {saved[0], saved[1], saved[2]}, !data.at("back").toBool(),
                 data.at("rows").toInt(), data.at("group").toStringRef()),
            {},
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

Tensor all_to_all_by_counts(const Tensor& some_rows, const RowCounts& on_host, bool back,
                            std::int64_t result_rows, const std::string& group) {
  const Tensor rows = some_rows.contiguous();
  const Counts offered = counts_in(on_host.offered), sent = counts_in(on_host.sent),
               received = counts_in(on_host.received);
  const std::int64_t home = back ? result_rows : rows.size(0), away = back ? rows.size(0) : result_rows;
  const std::int64_t arrived = sum(received);
  RONDO_ASSERT(sum(offered) == home, "all_to_all_tokens: each row must be offered to one rank");
  RONDO_ASSERT(arrived <= away, "all_to_all_tokens: received rows exceed the result");
  const Tensor result = at::empty({result_rows, rows.size(1)}, rows.options());
  const auto backend = c10d::resolve_process_group(group)->getBackend(rows.device().type());
  const auto exchange = [&](const Tensor& to, const Tensor& from, Counts of_to, Counts of_from) {
    Tensor output = message(to), input = message(from);  // Gloo consumes the counts
    backend->alltoall_base(output, input, of_to, of_from)->wait();
  };
  const bool all_goes = sent == offered;
  const Tensor packed = all_goes ? (back ? result : rows) : buffer_for(sum(sent), rows);
  // Calls body(rows in place, the same rows packed) for the rows of each rank.
  const auto for_each_rank = [&](const Tensor& in_place, const auto& body) {
    for (std::size_t p = 0, at = 0, from = 0; p < sent.size(); from += offered[p], at += sent[p], ++p) {
      RONDO_ASSERT(sent[p] >= 0 && sent[p] <= offered[p],
                   "all_to_all_tokens: sent rows exceed the offered rows");
      if (sent[p] > 0) body(in_place.narrow(0, from, sent[p]), packed.narrow(0, at, sent[p]));
    }
  };
  if (!back) {
    if (!all_goes) for_each_rank(rows, [](const Tensor& row, const Tensor& sends) { sends.copy_(row); });
    exchange(result.narrow(0, 0, arrived), packed, received, sent);
    result.narrow(0, arrived, away - arrived).zero_();
    return result;
  }
  exchange(packed, rows.narrow(0, 0, arrived), sent, received);
  if (all_goes) return result;
  result.zero_();
  for_each_rank(result, [](const Tensor& row, const Tensor& came) { row.copy_(came); });
  return result;
}

Tensor all_to_all_tokens(const Tensor& rows, const RowCounts& counts, bool back, std::int64_t result_rows,
                         const std::string& group) {
  return AllToAllTokens::apply(rows, counts.offered, counts.sent, counts.received, back, result_rows, group);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "all_to_all_tokens(Tensor rows, Tensor offered, Tensor sent, Tensor received, bool back, "
      "int result_rows, str group) -> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_meta); }

}  // namespace rondo
