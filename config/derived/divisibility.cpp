// Returns broken rules instead of throwing them. The configuration check calls it with the known
// degrees; the layout calls it again when the number of ranks is known.
#include "config/derived/divisibility.h"

#include <fmt/format.h>

#include "config/derived/batch.h"
#include "config/derived/float8.h"
#include "models/parts/model_spec.h"

namespace rondo {
namespace {

constexpr const char* kContext = "parallelism.context_parallel_degree";

// Returns the rule that is broken by ranks that exchange heads for tokens, or "".
std::string broken_exchange(const SharedSizes& shared, const ShareDegrees& degrees) {
  const auto size = [&](const char* name) -> std::int64_t {
    for (const SharedSize& one : shared.layers)
      if (one.key == name) return one.size;
    return 0;
  };
  const std::int64_t queries = size("n_heads") / degrees.tensor, n = degrees.context;
  const std::int64_t of_keys = size("n_kv_heads") > 0 ? size("n_kv_heads") / degrees.tensor : queries;
  // With fewer key heads than ranks, each is sent to several ranks.
  if (queries % n == 0 && (of_keys % n == 0 || (of_keys > 0 && n % of_keys == 0))) return "";
  return fmt::format(
      "{} = {} with context_parallel_rotate_method = \"alltoall\" must divide the {} heads of queries on a "
      "rank, and divide the {} of keys or be a multiple of them; choose such a degree, or \"allgather\"",
      kContext, n, queries, of_keys);
}

}  // namespace

std::vector<BrokenRule> broken_shares(const JobConfig& config, const ShareDegrees& degrees) {
  const std::int64_t tensor_parallel = degrees.tensor, context_parallel = degrees.context;
  std::vector<BrokenRule> broken;
  const auto require = [&](bool holds, std::vector<std::string> keys, const std::string& rule) {
    if (!holds) broken.push_back({std::move(keys), rule});
  };
  const ModelSpec* model = find_model_spec(config.model.name);
  if (model == nullptr) return broken;
  const SharedSizes shared = model->shared(config.model.sizes);
  const auto check_sizes = [&](const std::string& key, std::int64_t ranks,
                               const std::vector<SharedSize>& sizes) {
    for (const auto& [name, size] : sizes)
      require(size % ranks == 0, {key, "model." + name, "model.name"},
              fmt::format("{} = {} must divide model.{} = {}: each rank has a whole number of it", key, ranks,
                          name, size));
  };
  const std::string tensor = "parallelism.tensor_parallel_degree",
                    expert = "parallelism.expert_parallel_degree",
                    cut = "parallelism.expert_tensor_parallel_degree";
  const std::int64_t expert_parallel = config.parallelism.expert_parallel_degree;
  check_sizes(tensor, tensor_parallel, shared.layers);
  check_sizes(expert, expert_parallel, shared.experts);
  const auto need_experts = [&](const std::string& key, std::int64_t degree) {
    require(degree == 1 || !shared.experts.empty(), {key, "model.name"},
            fmt::format("{} = {} needs a model with experts, and {} has none; set it to 1", key, degree,
                        config.model.name));
  };
  need_experts(expert, expert_parallel);
  const std::int64_t expert_tp = config.parallelism.expert_tensor_parallel_degree;
  require(expert_tp == 1 || expert_tp == tensor_parallel, {cut, tensor},
          fmt::format("{} = {} must be 1, or {} = {}", cut, expert_tp, tensor, tensor_parallel));
  need_experts(cut, expert_tp);
  check_sizes(cut, expert_tp, shared.expert_widths);
  const auto check_tokens = [&](const std::string& section, const std::string& batch_key, std::int64_t batch,
                                std::int64_t length) {
    const ContextBalance balance = context_balance(config.parallelism);
    const std::int64_t unit = context_unit(balance, context_parallel, length),
                       next = (length / unit + 1) * unit;
    require(length % unit == 0,
            {kContext, section + ".seq_len", "parallelism.context_parallel_load_balancer"},
            fmt::format("{} = {} with this load balancer needs {}.seq_len to be a multiple of {}, but it is "
                        "{}; the next multiple is {}",
                        kContext, context_parallel, section, unit, length, next));
    if (length % context_parallel != 0) return;
    const std::int64_t own = length / context_parallel;
    require(
        batch * own % tensor_parallel == 0, {tensor, batch_key, section + ".seq_len"},
        fmt::format(
            "{} = {} must divide {} * seq_len{} = {} * {} = {}: the ranks that share the layers share the "
            "tokens",
            tensor, tensor_parallel, batch_key,
            context_parallel > 1 ? fmt::format(" / {}", context_parallel) : "", batch, own, batch * own));
  };
  if (config.parallelism.exchanges_heads() && context_parallel > 1) {
    const std::string rule = broken_exchange(shared, degrees);
    require(rule.empty(), {kContext, "parallelism.context_parallel_rotate_method", "model.name"}, rule);
  }
  check_tokens("training", microbatch_key(config), microbatch_size(config), config.training.seq_len);
  if (config.validation.enable)
    check_tokens("validation", "validation.local_batch_size", config.validation.local_batch_size,
                 config.validation.seq_len);
  const std::vector<BrokenRule> of_float8 = broken_float8(config, degrees);
  broken.insert(broken.end(), of_float8.begin(), of_float8.end());
  return broken;
}

}  // namespace rondo
