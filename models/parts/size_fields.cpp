#include "models/parts/size_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace rondo {

std::vector<SizeProblem> GroupedQuerySizes::head_problems() const {
  std::vector<SizeProblem> found;
  const auto add = [&](std::vector<std::string> keys, std::string rule) {
    found.push_back({std::move(keys), std::move(rule)});
  };
  if (head_dim % 2 != 0) add({"head_dim"}, "model.head_dim must be even: rotary embedding turns pairs");
  if (head_dim == 0 && dim % n_heads != 0)
    add({"dim", "n_heads"},
        fmt::format("model.dim must be a multiple of model.n_heads, and {} (model.head_dim gives "
                    "heads a width of their own)",
                    division(dim, n_heads)));
  else if (head_dim == 0 && head_width() % 2 != 0)
    add({"dim", "n_heads"},
        fmt::format("model.dim / model.n_heads = {} / {} = {} must be even: rotary embedding turns pairs",
                    dim, n_heads, head_width()));
  if (n_heads % n_kv_heads != 0)
    add({"n_kv_heads", "n_heads"},
        fmt::format("model.n_kv_heads must divide model.n_heads: {} does not divide {}", n_kv_heads,
                    n_heads));
  return found;
}

void GroupedQuerySizes::make_small() {
  n_heads = n_heads > n_kv_heads ? 48 : 24, n_kv_heads = 24, head_dim = 4;
  dim = 41, n_layers = std::min<std::int64_t>(n_layers, 2), vocab_size = 259;
}

void DenseSizes::make_small() {
  GroupedQuerySizes::make_small();
  ffn_hidden_dim = 48;
}

std::vector<SizeProblem> RoutedSizes::routed_problems() const {
  std::vector<SizeProblem> found = head_problems();
  if (top_k > n_experts)
    found.push_back(
        {{"top_k", "n_experts"}, fmt::format("model.top_k must be at most model.n_experts = {}", n_experts)});
  return found;
}

void RoutedSizes::make_plain(FieldValues& values) const {
  GroupedQuerySizes::make_plain(values);
  values.erase("sequence_balance_coeff");
  if (load_balance_coeff == 0) values.erase("load_balance_coeff");
}

void RoutedSizes::make_small() {
  GroupedQuerySizes::make_small();
  moe_hidden_dim = 24, n_experts = 24, top_k = std::min<std::int64_t>(top_k, 3);
}

Fields joined(std::initializer_list<Fields> parts) {
  Fields all;
  for (const Fields& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace rondo
