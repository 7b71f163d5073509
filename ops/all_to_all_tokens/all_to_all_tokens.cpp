// Kernel for the CPU over the group's own all-to-all, and autograd: one Gloo call, then copies of runs of
// rows.
#include "ops/all_to_all_tokens/all_to_all_tokens.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
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

// Rows that lie together in both orders. By expert there is room for so many rows: what comes behind is left
// out.
std::vector<AllToAllRun> runs_of(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts,
                                 std::int64_t room) {
  std::vector<AllToAllRun> runs(static_cast<std::size_t>(ranks * experts));
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < ranks * experts; ++i) {
    runs[static_cast<std::size_t>(i)].by_rank = at;
    at += counts[i];
  }
  at = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = counts[rank * experts + expert];
      AllToAllRun& run = runs[static_cast<std::size_t>(rank * experts + expert)];
      run.by_expert = at;
      run.rows = std::clamp<std::int64_t>(room - at, 0, count);
      at += count;
    }
  return runs;
}

// The sum of each rank's counts.
std::vector<std::int64_t> rows_by_rank(const std::int32_t* counts, std::int64_t ranks, std::int64_t experts) {
  std::vector<std::int64_t> sums;
  for (std::int64_t rank = 0; rank < ranks; ++rank, counts += experts)
    sums.push_back(std::accumulate(counts, counts + experts, std::int64_t{0}));
  return sums;
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

// Memory of this call alone: a group's thread may let go of a tensor a moment after its wait, and no
// allocator should see that.
struct Buffer {
  explicit Buffer(std::int64_t bytes)
      : data(std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes))) {}
  std::unique_ptr<char[]> data;
};

Tensor bytes_at(const void* data, std::int64_t rows, std::int64_t row_bytes) {
  return at::from_blob(const_cast<void*>(data), {rows, row_bytes}, at::TensorOptions().dtype(at::kByte));
}

// The dispatcher passes names by value.
// NOLINTBEGIN(performance-unnecessary-value-param)
Tensor all_to_all_tokens_cpu(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
                             std::int64_t result_rows, std::string group) {
  const Tensor x = rows.contiguous();
  RONDO_ASSERT(sent.is_contiguous() && received.is_contiguous(), "the counts of an exchange are contiguous");
  AllToAllPlan plan =
      plan_all_to_all(sent.const_data_ptr<std::int32_t>(), received.const_data_ptr<std::int32_t>(),
                      sent.size(0), sent.size(1), back, x.size(0), result_rows);
  const Tensor result = at::empty({result_rows, x.size(1)}, x.options());
  const std::int64_t row_bytes = x.size(1) * x.element_size();
  const Buffer by_rank(plan.rows_from_others * row_bytes);
  const Tensor away = bytes_at(by_rank.data.get(), plan.rows_from_others, row_bytes);
  const auto backend = c10d::resolve_process_group(group)->getBackend(c10::DeviceType::CPU);
  const auto place = [&](const void* base, std::int64_t row) {
    return static_cast<char*>(const_cast<void*>(base)) + row * row_bytes;
  };
  const auto size = [&](std::int64_t count) { return static_cast<std::size_t>(count * row_bytes); };
  if (!back) {
    Tensor output = away, input = bytes_at(x.const_data_ptr(), x.size(0), row_bytes);
    backend->alltoall_base(output, input, plan.from_others, plan.to_others)->wait();
    std::int64_t filled = 0;
    for (const AllToAllRun& run : plan.runs) {
      std::memcpy(place(result.mutable_data_ptr(), run.by_expert), place(by_rank.data.get(), run.by_rank),
                  size(run.rows));
      filled += run.rows;
    }
    std::memset(place(result.mutable_data_ptr(), filled), 0, size(result_rows - filled));
    return result;
  }
  std::memset(by_rank.data.get(), 0, size(plan.rows_from_others));
  for (const AllToAllRun& run : plan.runs)
    std::memcpy(place(by_rank.data.get(), run.by_rank), place(x.const_data_ptr(), run.by_expert),
                size(run.rows));
  Tensor output = bytes_at(result.const_data_ptr(), result_rows, row_bytes), input = away;
  backend->alltoall_base(output, input, plan.to_others, plan.from_others)->wait();
  return result;
}

Tensor all_to_all_tokens_meta(const Tensor& rows, const Tensor&, const Tensor&, bool,
                              std::int64_t result_rows, std::string) {
  return at::empty({result_rows, rows.size(1)}, rows.options());
}
// NOLINTEND(performance-unnecessary-value-param)

Tensor call(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
            std::int64_t result_rows, const std::string& group) {
  static const auto handle = op_handle<decltype(all_to_all_tokens_cpu)>("rondo::all_to_all_tokens");
  return handle.call(rows, sent, received, back, result_rows, group);
}

struct AllToAllTokens : torch::autograd::Function<AllToAllTokens> {
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

AllToAllPlan plan_all_to_all(const std::int32_t* sent, const std::int32_t* received, std::int64_t ranks,
                             std::int64_t experts, bool back, std::int64_t rows, std::int64_t result_rows) {
  AllToAllPlan plan;
  plan.to_others = rows_by_rank(sent, ranks, experts);
  plan.from_others = rows_by_rank(received, ranks, experts);
  RONDO_ASSERT(sum(plan.to_others) == (back ? result_rows : rows),
               "an exchange sends each of its rows to one rank");
  plan.rows_from_others = sum(plan.from_others);
  plan.runs = runs_of(received, ranks, experts, back ? rows : result_rows);
  return plan;
}

Tensor all_to_all_tokens(const Tensor& rows, const Tensor& sent, const Tensor& received, bool back,
                         std::int64_t result_rows, const std::string& group) {
  return AllToAllTokens::apply(rows, sent, received, back, result_rows, group);
}

TORCH_LIBRARY_FRAGMENT(rondo, m) {
  m.def(
      "all_to_all_tokens(Tensor rows, Tensor sent, Tensor received, bool back, int result_rows, str group) "
      "-> Tensor");
}
TORCH_LIBRARY_IMPL(rondo, CPU, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_cpu); }
TORCH_LIBRARY_IMPL(rondo, Meta, m) { m.impl("all_to_all_tokens", &all_to_all_tokens_meta); }

}  // namespace rondo
