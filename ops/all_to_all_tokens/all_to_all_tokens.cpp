#include "ops/all_to_all_tokens/all_to_all_tokens.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstring>
#include <memory>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "ops/all_to_all_tokens/all_to_all_runs.h"
#include "support/error.h"

namespace rondo {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Memory of this call alone: a group's thread may let go of a tensor a moment after its wait, and no allocator should
// see that.
struct Buffer {
  explicit Buffer(std::int64_t bytes)
      : data(std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes))) {}
  std::unique_ptr<char[]> data;
};

Tensor bytes_at(const void* data, std::int64_t rows, std::int64_t row_bytes) {
  return at::from_blob(const_cast<void*>(data), {rows, row_bytes}, at::TensorOptions().dtype(at::kByte));
}

Tensor all_to_all_tokens_cpu(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
                             std::int64_t result_rows, std::string group) {
  const Tensor x = rows.contiguous();
  RONDO_ASSERT(sent.is_contiguous() && received.is_contiguous(), "the counts of an exchange are contiguous");
  const std::int64_t row_bytes = x.size(1) * x.element_size();
  const std::int64_t ranks = sent.size(0), experts = sent.size(1);
  std::vector<std::int64_t> to_others = rows_by_rank(sent.const_data_ptr<std::int32_t>(), ranks, experts);
  std::vector<std::int64_t> from_others =
      rows_by_rank(received.const_data_ptr<std::int32_t>(), ranks, experts);
  const std::int64_t home_rows = back ? result_rows : x.size(0), away_rows = back ? x.size(0) : result_rows;
  RONDO_ASSERT(sum(to_others) == home_rows, "an exchange sends each of its rows to one rank");
  const Tensor result = at::empty({result_rows, x.size(1)}, x.options());
  const Buffer by_rank(sum(from_others) * row_bytes);
  const Tensor away = bytes_at(by_rank.data.get(), sum(from_others), row_bytes);
  const auto backend = c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CPU);
  const auto place = [&](const void* base, std::int64_t row) {
    return static_cast<char*>(const_cast<void*>(base)) + row * row_bytes;
  };
  const auto size = [&](std::int64_t count) { return static_cast<std::size_t>(count * row_bytes); };
  const std::vector<AllToAllRun> runs =
      all_to_all_runs(received.const_data_ptr<std::int32_t>(), ranks, experts, away_rows);
  if (!back) {
    Tensor output = away, input = bytes_at(x.const_data_ptr(), home_rows, row_bytes);
    backend->alltoall_base(output, input, from_others, to_others)->wait();
    std::int64_t filled = 0;
    for (const AllToAllRun& run : runs) {
      std::memcpy(place(result.mutable_data_ptr(), run.by_expert), place(by_rank.data.get(), run.by_rank),
                  size(run.rows));
      filled += run.rows;
    }
    std::memset(place(result.mutable_data_ptr(), filled), 0, size(result_rows - filled));
    return result;
  }
  std::memset(by_rank.data.get(), 0, size(sum(from_others)));
  for (const AllToAllRun& run : runs)
    std::memcpy(place(by_rank.data.get(), run.by_rank), place(x.const_data_ptr(), run.by_expert),
                size(run.rows));
  Tensor output = bytes_at(result.const_data_ptr(), home_rows, row_bytes), input = away;
  backend->alltoall_base(output, input, to_others, from_others)->wait();
  return result;
}

Tensor all_to_all_tokens_meta(const Tensor& rows, const Tensor&, const Tensor&, bool,
                              std::int64_t result_rows, std::string) {
  return at::empty({result_rows, rows.size(1)}, rows.options());
}

Tensor call(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
            std::int64_t result_rows, const std::string& group) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("rondo::all_to_all_tokens", "")
                                 .typed<decltype(all_to_all_tokens_cpu)>();
  return handle.call(rows, sent, received, back, result_rows, group);
}

struct ExchangeRows : torch::autograd::Function<ExchangeRows> {
  static Tensor forward(AutogradContext* context, const Tensor& rows, const Tensor& sent,
                        const Tensor& received, bool back, std::int64_t result_rows,
                        const std::string& group) {
    at::AutoDispatchBelowAutograd below_autograd;
    context->save_for_backward({sent, received});
    context->saved_data["back"] = back;
    context->saved_data["rows"] = rows.size(0);
    context->saved_data["group"] = group;
    return call(rows, sent, received, back, result_rows, group);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto& data = context->saved_data;
    return {call(gradients[0].contiguous(), saved[0], saved[1], !data.at("back").toBool(),
                 data.at("rows").toInt(), data.at("group").toStringRef()),
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

Tensor all_to_all_tokens(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
                         std::int64_t result_rows, const std::string& group) {
  return ExchangeRows::apply(rows, sent, received, back, result_rows, group);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "all_to_all_tokens(Tensor rows, Tensor sent, Tensor received, bool back, int result_rows, str group) "
      "-> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_meta); }

}  // namespace rondo
